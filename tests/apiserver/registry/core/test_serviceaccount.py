"""Tokens of service accounts: asked for, used, and no longer good."""

import base64
import time

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.security.web_tokens import (
    SigningKey,
    VerifyingKey,
    WrongTokenError,
    read,
    verified,
)

ISSUER = "https://kubernetes.default.svc.cluster.local"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
async def api(server) -> Caller:
    caller = Caller(server)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}}
    assert (await caller.post(ACCOUNTS, account)).status == 201
    return caller


def asking(**spec) -> dict:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def token(api: Caller, **spec) -> str:
    answer = await api.post(f"{ACCOUNTS}/bot/token", asking(**spec))
    assert answer.status == 201, answer.body
    return answer.body["status"]["token"]


async def who(api: Caller, text: str) -> dict:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await Caller(api.server, None).post(WHO, body, authorization=f"Bearer {text}")
    return answer.body["status"]["userInfo"] if answer.status == 201 else answer.status


async def error(api: Caller, text: str, **spec) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text, **spec}}
    return (await api.post(REVIEWS, body)).body["status"].get("error", "")


async def test_a_token(api):
    """A TokenRequest gives a token that says who it is for and until when, and logs the account in."""
    answer = await api.post(f"{ACCOUNTS}/bot/token", asking(expirationSeconds=1200))
    body = answer.body
    claims = read(body["status"]["token"]).claims

    assert (answer.status, body["metadata"]["name"]) == (201, "bot")
    assert body["spec"] == {"audiences": [ISSUER], "expirationSeconds": 1200, "boundObjectRef": None}
    assert (claims["iss"], claims["aud"], claims["exp"] - claims["iat"]) == (ISSUER, [ISSUER], 1200)
    assert claims["sub"] == "system:serviceaccount:default:bot"
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "bot"
    assert await who(api, body["status"]["token"]) == {
        "username": "system:serviceaccount:default:bot",
        "uid": claims["kubernetes.io"]["serviceaccount"]["uid"],
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]},
    }


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (
            {"expirationSeconds": 60},
            422,
            "spec.expirationSeconds: Invalid value: 60: may not specify a duration less",
        ),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}},
            404,
            'pods "none" not found',
        ),
        (
            {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ],
)
async def test_a_wrong_request(api, spec, status, message):
    """A token request with a wrong object or too short a lifetime is refused as upstream does."""
    answer = await api.post(f"{ACCOUNTS}/bot/token", asking(**spec))

    assert answer.status == status
    assert message in answer.body["message"]
    assert (await api.post(f"{ACCOUNTS}/none/token", asking())).status == 404


async def test_bound_to_a_pod(api):
    """A token bound to a pod knows pod and node, and ends with the pod."""
    spec = {"nodeName": "n1", "serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    uid = (await api.post(PODS, pod)).body["metadata"]["uid"]
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid}
    text = await token(api, boundObjectRef=reference)
    extra = (await who(api, text))["extra"]

    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [uid]
    assert extra["authentication.kubernetes.io/node-name"] == ["n1"]
    other = await api.post(f"{ACCOUNTS}/bot/token", asking(boundObjectRef={**reference, "uid": "other"}))
    assert (other.status, other.body["reason"]) == (409, "Conflict")
    await api.delete(f"{PODS}/p?gracePeriodSeconds=0")
    assert await who(api, text) == 401
    why = "[invalid bearer token, service account token has been invalidated]"
    assert await error(api, text) == why


async def test_no_longer_good(api):
    """A token that has expired, is for others or of a deleted account is distinguished by a review only."""
    keys = api.server.services.account_keys
    claims = read(await token(api)).claims
    old = keys.signing.sign({**claims, "exp": int(time.time()) - 3600})

    assert await who(api, old) == 401
    assert await error(api, old) == "[invalid bearer token, service account token has expired]"
    assert await error(api, SigningKey.generate().sign(claims)) == "invalid bearer token"
    elsewhere = await token(api, audiences=["vault"])
    assert await who(api, elsewhere) == 401
    assert await error(api, elsewhere, audiences=["vault"]) == ""
    text = await token(api)
    await api.delete(f"{ACCOUNTS}/bot")
    assert await who(api, text) == 401


async def test_in_a_secret(api):
    """A token in a secret is good while the secret holds it; a review says in words of its own why not."""
    uid = (await api.get(f"{ACCOUNTS}/bot")).body["metadata"]["uid"]
    prefix = "kubernetes.io/serviceaccount/"
    claims = {
        "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:bot",
        f"{prefix}namespace": "default", f"{prefix}secret.name": "s",
        f"{prefix}service-account.name": "bot", f"{prefix}service-account.uid": uid,
    }  # fmt: skip
    text = api.server.services.account_keys.signing.sign(claims)
    assert await who(api, text) == 401
    annotations = {"kubernetes.io/service-account.name": "bot"}
    data = {"token": base64.b64encode(text.encode()).decode()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "data": data,
    }
    metadata = {"name": "s", "annotations": annotations}
    assert (await api.post(SECRETS, {**secret, "metadata": metadata})).status == 201

    assert (await who(api, text))["username"] == "system:serviceaccount:default:bot"
    label = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}
    await api.patch(f"{SECRETS}/s", {"metadata": {"labels": label}})
    assert await who(api, text) == 401
    marked = "the token in secret default/s for service account default/bot has been marked invalid. Use"
    assert marked in await error(api, text)
    await api.patch(f"{SECRETS}/s", {"metadata": {"labels": None}})
    assert (await who(api, text))["username"] == "system:serviceaccount:default:bot"
    await api.patch(f"{SECRETS}/s", {"data": {"token": "AAAA"}})
    assert await error(api, text) == "[invalid bearer token, Token does not match server's copy]"
    await api.delete(f"{SECRETS}/s")
    assert await who(api, text) == 401
    assert await error(api, text) == "[invalid bearer token, Token has been invalidated]"


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize(
    "change",
    [
        lambda part: part + "=" * (-len(part) % 4 or 4),
        lambda part: part + "=",
        lambda part: part.replace("-", "+").replace("_", "/") if {*"-_"} & {*part} else f"{part}+",
        lambda part: f"{part[:4]}!{part[4:]}",
        lambda part: f"{part[:4]}\u00e9{part[4:]}",
    ],
    ids=["padded", "equals sign", "standard alphabet", "other characters", "beyond ASCII"],
)
def test_parts_are_base64_for_urls_without_padding(part, change):
    """Padding, the standard alphabet and what is no base64 make a token no token, in each of its parts."""
    key = SigningKey.generate()
    parts = key.sign({"iss": "x", "text": "???>>>~~~"}).split(".")
    assert verified(".".join(parts), [key.public]).claims["iss"] == "x"
    parts[part] = change(parts[part])

    with pytest.raises(WrongTokenError):
        verified(".".join(parts), [key.public])


async def test_a_padded_token_is_nobodys(api):
    """A token that is the same but for its padding does not log in."""
    text = await token(api)

    assert await who(api, f"{text}==") == 401
    assert (await who(api, text))["username"] == "system:serviceaccount:default:bot"


async def test_a_browser(api):
    """A WebSocket carries its token among the protocols."""
    encoded = base64.urlsafe_b64encode((await token(api)).encode()).rstrip(b"=").decode()
    protocols = f"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.{encoded}"
    browser, upgrade = Caller(api.server, None), {"connection": "Upgrade", "upgrade": "websocket"}
    answer = await browser.get("/api/v1/nodes", sec_websocket_protocol=protocols, **upgrade)
    assert 'User "system:serviceaccount:default:bot"' in answer.body["message"]
    plain = await browser.get("/api/v1/nodes", sec_websocket_protocol=protocols)
    assert 'User "system:anonymous"' in plain.body["message"]
    padded = protocols + "=" * (-len(encoded) % 4 or 4)
    wrongs = (protocols.split(", ")[1], f"{protocols}, {protocols}", f"{protocols[:-3]}===", padded)
    for wrong in wrongs:
        answer = await browser.get("/api/v1/nodes", sec_websocket_protocol=wrong, **upgrade)
        assert answer.status == 401


async def test_what_others_need(api):
    """The keys and where they are can be read by service accounts, and check the tokens."""
    text = await token(api)
    bot = Caller(api.server, None)
    document = await bot.get("/.well-known/openid-configuration", authorization=f"Bearer {text}")
    keys = await bot.get("/openid/v1/jwks", authorization=f"Bearer {text}")

    assert document.body["issuer"] == ISSUER
    assert document.body["id_token_signing_alg_values_supported"] == ["ES256"]
    assert keys.content_type == "application/jwk-set+json"
    assert keys.body["keys"][0]["kid"] == read(text).header["kid"]
    assert (await bot.get("/openid/v1/jwks")).status == 403


async def test_where_the_keys_are():
    """The discovery document names the server's address, or the URI that the server was given."""
    for given in ("", "https://keys.example.com/jwks"):
        server = await open_server(service_account_jwks_uri=given)
        try:
            document = await Caller(server).get("/.well-known/openid-configuration")
            assert document.body["jwks_uri"] == (given or f"https://{server.services.address}/openid/v1/jwks")
        finally:
            await close_server(server)


async def test_keys_in_files(tmp_path):
    """Servers with the same key file believe each other's tokens; RSA serves as well."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (tmp_path / "sa.key").write_bytes(pem)
    server = await open_server(service_account_signing_key_file=str(tmp_path / "sa.key"))
    try:
        text = server.services.account_keys.signing.sign({"iss": "x"})
        assert verified(text, [VerifyingKey.load(pem)]).header["alg"] == "RS256"
        with pytest.raises(WrongTokenError):
            verified(text[:-4] + "AAAA", [VerifyingKey.load(pem)])
    finally:
        await close_server(server)


async def test_a_namespace_that_is_not_there(api):
    """Admission looks for the namespace before anybody looks for the account."""
    answer = await api.post("/api/v1/namespaces/nowhere/serviceaccounts/bot/token", asking())
    assert (answer.status, answer.body["message"]) == (404, 'namespaces "nowhere" not found')

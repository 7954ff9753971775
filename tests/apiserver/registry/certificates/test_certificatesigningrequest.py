"""Certificate signing requests: who asks, who approves, who signs."""

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from server_in_process import Caller

from kubeskew.apiserver.http.request import Peer

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NO_BASE64 = base64.b64encode(
    b"-----BEGIN CERTIFICATE REQUEST-----\nx\n-----END CERTIFICATE REQUEST-----\n"
).decode()


def request(name: str, *groups: str) -> str:
    """A PKCS#10 request, as `spec.request` has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()


def asking(name: str = "jane", *groups: str, **spec) -> dict:
    whole = {"request": request(name, *groups), "signerName": CLIENT, "usages": ["client auth"], **spec}
    about = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return {**about, "metadata": {"name": name}, "spec": whole}


def condition(kind: str, **more) -> dict:
    return {"type": kind, "status": "True", "reason": "r", "message": "m", **more}


async def grant(api: Caller, user: str, verb: str, signer: str) -> None:
    group = "rbac.authorization.k8s.io"
    csr = {"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["get", "update"]}
    signers = {**csr, "resources": ["signers"], "verbs": [verb], "resourceNames": [signer]}
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": user}}
    await api.post(f"{RBAC}/clusterroles", {**about, "kind": "ClusterRole", "rules": [csr, signers]})
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": user}
    subject = {"kind": "User", "name": user, "apiGroup": group}
    bound = {**about, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    assert (await api.post(f"{RBAC}/clusterrolebindings", bound)).status == 201


async def test_who_asks(api):
    """User and groups are written down by the server; nothing is approved by the one who asks."""
    sent = asking(username="root", groups=["g"])
    sent["status"] = {"conditions": [condition("Approved")]}
    made = (await api.post(REQUESTS, sent)).body

    assert made["spec"]["username"] == "admin"
    assert made["spec"]["groups"] == ["system:masters", "system:authenticated"]
    assert made["status"] == {}
    changed = await api.put(f"{REQUESTS}/jane", {**made, "spec": {**made["spec"], "usages": ["signing"]}})
    assert changed.body["spec"]["usages"] == ["client auth"]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"request": "eA=="}, "spec.request", "PEM block type must be CERTIFICATE REQUEST"),
        (
            {"request": NO_BASE64},
            "spec.request",
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        ({"usages": []}, "spec.usages", "Required value"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]", 'Duplicate value: "client auth"'),
        ({"signerName": "none"}, "spec.signerName", "must be a fully qualified domain and path"),
        ({"signerName": "a/b"}, "spec.signerName", "should be a domain with at least two segments"),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            "spec.signerName",
            "the legacy signerName is not allowed",
        ),
        (
            {"expirationSeconds": 10},
            "spec.expirationSeconds",
            "may not specify a duration less than 600 seconds",
        ),
    ],
)
async def test_validation(api, spec, field, message):
    """A request must be one, for a signer, with usages, for ten minutes or more."""
    made = asking(**{**spec, "signerName": spec.get("signerName", "example.com/own")})
    answer = await api.post(REQUESTS, made)

    assert answer.status == 422
    cause = answer.body["details"]["causes"][0]
    assert cause["field"] == field
    assert message in cause["message"]


async def test_no_masters(api):
    """The signer of clients gives nobody the group of masters."""
    refused = await api.post(REQUESTS, asking("jane", "system:masters"))

    assert refused.status == 403
    assert refused.body["message"].endswith(
        f"use of {CLIENT} signer with system:masters group is not allowed"
    )


async def test_approval(api, server):
    """A user who may approve for the signer adds one decision, and the server fills in its times."""
    made = (await api.post(REQUESTS, asking())).body
    decided = {**made, "status": {"conditions": [condition("Approved")]}}
    bob = Caller(server, Peer("bob", ()))
    await grant(api, "bob", "approve", "kubernetes.io/other")
    refused = await bob.put(f"{REQUESTS}/jane/approval", decided)
    assert refused.body["message"].endswith(
        f'user not permitted to approve requests with signerName "{CLIENT}"'
    )
    eve = Caller(server, Peer("eve", ()))
    await grant(api, "eve", "approve", "kubernetes.io/*")
    approved = await eve.put(f"{REQUESTS}/jane/approval", decided)

    assert approved.status == 200
    stored = approved.body["status"]["conditions"][0]
    assert stored["lastUpdateTime"] == stored["lastTransitionTime"]
    both = {**approved.body, "status": {"conditions": [condition("Approved"), condition("Denied")]}}
    wrong = await eve.put(f"{REQUESTS}/jane/approval", both)
    assert "Approved and Denied conditions are mutually exclusive" in wrong.body["message"]
    none = await eve.put(f"{REQUESTS}/jane/approval", {**approved.body, "status": {}})
    assert 'updates may not remove a condition of type "Approved"' in none.body["message"]


async def test_signing(api, server):
    """A user who may sign for the signer sets the certificate, once, but cannot add a decision."""
    made = (await api.post(REQUESTS, asking())).body
    eve = Caller(server, Peer("eve", ()))
    await grant(api, "eve", "sign", CLIENT)
    decided = {**made, "status": {"conditions": [condition("Approved")]}}
    refused = await eve.put(f"{REQUESTS}/jane/status", decided)
    assert 'updates may not add a condition of type "Approved"' in refused.body["message"]
    nonsense = {**made, "status": {"certificate": "eA=="}}
    refused = await eve.put(f"{REQUESTS}/jane/status", nonsense)
    assert 'status.certificate: Invalid value: "<certificate data>"' in refused.body["message"]
    failed = {**made, "status": {"conditions": [condition("Failed")]}}

    assert (await eve.put(f"{REQUESTS}/jane/status", failed)).status == 200
    other = await Caller(server, Peer("bob", ())).put(f"{REQUESTS}/jane/status", failed)
    assert other.status == 403

"""Reviews: questions that are created, answered and not stored."""

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.http.request import Peer

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
LOCAL = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
LIST_NODES = {"resourceAttributes": {"verb": "list", "resource": "nodes"}}
GET_READY = {"nonResourceAttributes": {"verb": "get", "path": "/readyz"}}


ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
NOT_BOTH = "cannot be specified in combination with resourceAttributes"


def access(kind: str, **spec) -> dict:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


async def test_a_namespace_that_is_not_there(api):
    """An access review in a missing namespace is answered as in any other: not allowed, and no 404."""
    target = "/apis/authorization.k8s.io/v1/namespaces/nowhere/localsubjectaccessreviews"
    spec = {"user": "u", "resourceAttributes": {"namespace": "nowhere", "verb": "get", "resource": "pods"}}
    answer = await api.post(target, {"metadata": {"namespace": "nowhere"}, "spec": spec})

    assert (answer.status, answer.body["status"]["allowed"]) == (201, False)


async def test_who_am_i(api):
    """A SelfSubjectReview shows the user and groups of the one who asks, impersonated or not."""
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    answer = await api.post(f"{AUTHENTICATION}/selfsubjectreviews", question)

    assert answer.status == 201
    assert answer.body["metadata"]["creationTimestamp"]
    assert answer.body["status"]["userInfo"] == {
        "username": "admin",
        "groups": ["system:masters", "system:authenticated"],
    }
    other = await api.post(
        f"{AUTHENTICATION}/selfsubjectreviews", question, impersonate_user="eve", impersonate_uid="7"
    )
    assert other.body["status"]["userInfo"] == {
        "username": "eve",
        "uid": "7",
        "groups": ["system:authenticated"],
    }


async def test_may_i(api):
    """A SelfSubjectAccessReview is decided for the one who asks: an anonymous user may read health only."""
    review = access("SelfSubjectAccessReview", **LIST_NODES)
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", review)

    assert (answer.status, answer.body["status"]) == (201, {"allowed": True})
    assert answer.body["spec"] == LIST_NODES


@pytest.mark.parametrize(
    ("user", "what", "allowed"),
    [
        ({"user": "eve"}, LIST_NODES, False),
        ({"user": "eve"}, GET_READY, False),
        ({"user": "eve", "groups": ["system:authenticated"]}, LIST_NODES, False),
        ({"groups": ["system:masters"]}, {"resourceAttributes": {"verb": "impersonate"}}, True),
        (
            {"user": "e", "groups": ["system:authenticated"]},
            {"resourceAttributes": {"verb": "impersonate"}},
            False,
        ),
    ],
)
async def test_may_they(api, user, what, allowed):
    """A SubjectAccessReview asks for the user and groups that it names, in a namespace as well."""
    review = access("SubjectAccessReview", **user, **what)
    answer = await api.post(f"{AUTHORIZATION}/subjectaccessreviews", review)

    assert (answer.status, answer.body["status"]) == (201, {"allowed": allowed})
    if "resourceAttributes" in what:
        there = {**what["resourceAttributes"], "namespace": "default"}
        local = access("LocalSubjectAccessReview", **user, resourceAttributes=there)
        assert (await api.post(LOCAL, local)).body["status"] == {"allowed": allowed}


@pytest.mark.parametrize(
    ("path", "kind", "spec", "message"),
    [
        (
            f"{AUTHORIZATION}/selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            {},
            f"spec.resourceAttributes: Invalid value: null: {ONE_OF}",
        ),
        (
            f"{AUTHORIZATION}/subjectaccessreviews",
            "SubjectAccessReview",
            {**LIST_NODES, **GET_READY, "user": "u"},
            f'spec.nonResourceAttributes: Invalid value: {{"Path":"/readyz","Verb":"get"}}: {NOT_BOTH}',
        ),
        (
            f"{AUTHORIZATION}/subjectaccessreviews",
            "SubjectAccessReview",
            LIST_NODES,
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            LOCAL,
            "LocalSubjectAccessReview",
            {**LIST_NODES, "user": "u"},
            'spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace',
        ),
    ],
)
async def test_a_wrong_question(api, path, kind, spec, message):
    """A review that cannot be decided is answered 422; the message lacks the kind, as upstream."""
    answer = await api.post(path, access(kind, **spec))

    assert answer.status == 422
    assert answer.body["message"] == f'.authorization.k8s.io "" is invalid: {message}'


async def test_metadata_must_be_empty(api):
    """A review of access has no name."""
    review = {**access("SelfSubjectAccessReview", **LIST_NODES), "metadata": {"name": "n"}}
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", review)

    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "metadata"


async def test_rules(api):
    """The rules of a user: those of every role that is bound to a group of theirs."""
    review = access("SelfSubjectRulesReview", namespace="default")
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", review)

    status = answer.body["status"]
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    assert status["resourceRules"] == [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": reviews},
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]
    assert status["nonResourceRules"][0] == {"verbs": ["*"], "nonResourceURLs": ["*"]}
    assert status["incomplete"] is False
    nowhere = await api.post(
        f"{AUTHORIZATION}/selfsubjectrulesreviews", access("SelfSubjectRulesReview", namespace="")
    )
    assert (nowhere.status, nowhere.body["message"]) == (400, "no namespace on request")


async def test_tokens(tmp_path):
    """A TokenReview names the user of a token; a wrong one is not authenticated; none is 400."""
    (tmp_path / "tokens").write_text('secret,alice,1,"g"\n')
    server = await open_server(token_auth_file=str(tmp_path / "tokens"))
    api = Caller(server)

    async def ask(token: str):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        return await api.post(f"{AUTHENTICATION}/tokenreviews", body)

    user = {"username": "alice", "uid": "1", "groups": ["g", "system:authenticated"]}
    try:
        assert (await ask("secret")).body["status"] == {
            "authenticated": True,
            "user": user,
            "audiences": ["https://kubernetes.default.svc.cluster.local"],
        }
        assert (await ask("wrong")).body["status"] == {"user": {}, "error": "invalid bearer token"}
        refused = await ask("")
    finally:
        await close_server(server)
    assert refused.status == 400
    assert refused.body["message"] == "token is required for TokenReview in authentication"


async def test_only_created(server, api):
    """Reviews cannot be read, and asking writes nothing."""
    before = await server.services.log.revision()
    review = access("SelfSubjectAccessReview", **LIST_NODES)
    assert (await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", review)).status == 201
    assert (await api.get(f"{AUTHORIZATION}/selfsubjectaccessreviews")).status == 405
    assert (await api.delete(f"{AUTHORIZATION}/selfsubjectaccessreviews/one")).status == 404
    nobody = Caller(server, Peer("eve", ()))
    assert (await nobody.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", review)).status == 201
    assert await server.services.log.revision() == before

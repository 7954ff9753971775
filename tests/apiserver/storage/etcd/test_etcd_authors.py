"""Authors of a real API server's writes: what its audit events claim, and which claims count."""

from datetime import timedelta
from typing import Any

import pytest
from storage_cases import START, pod

from kubeskew.apiserver.registry.requests.scope import component_of
from kubeskew.apiserver.storage.etcd.authors import Claim, Ground, claims_of, joined, written_of
from kubeskew.apiserver.storage.etcd.log_backing import API_SERVER
from kubeskew.apiserver.storage.records import Author, Event, Verb

AGENT = "kubectl/v1.36.3 (linux/amd64) kubernetes/abcdef"
ALICE = Author("alice", "kubectl", "1.36", "1.36.3", "id-1")
SECOND = timedelta(seconds=1)


def audited(verb: str = "create", **changes: Any) -> dict[str, Any]:
    """An event as kube-apiserver's webhook sends it, of the level RequestResponse."""
    return {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": "id-1",
        "stage": "ResponseComplete", "verb": verb, "user": {"username": "alice"}, "userAgent": AGENT,
        "responseStatus": {"metadata": {}, "code": 201},
        "responseObject": {"kind": "Pod", "metadata": {"name": "a", "uid": "u1", "resourceVersion": "7"}},
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000000Z",
        "stageTimestamp": "2026-01-02T03:04:06.000000Z",
        **changes,
    }  # fmt: skip


def grounds(event: dict[str, Any]) -> list[Ground]:
    claims = claims_of(event, "1.36.3", component_of)
    assert {claim.author for claim in claims} <= {ALICE}
    return [claim.ground for claim in claims]


GONE = {"kind": "Status", "status": "Success", "details": {"name": "a", "kind": "pods", "uid": "u1"}}
TABLE = {"kind": "Table", "metadata": {"resourceVersion": "8"}, "rows": []}
SUCCESS = {"kind": "Status", "metadata": {}, "status": "Success", "code": 201}
MARKED = {"uid": "u1", "resourceVersion": "7", "deletionTimestamp": "2026-01-02T03:04:06Z"}
LIST = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [
    {"metadata": {"uid": "u1", "resourceVersion": "7"}}, {"metadata": {"uid": "u2"}}, {"metadata": {}}, 5,
]}  # fmt: skip
BINDING = {"kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}


def ref(resource: str, subresource: str = "") -> dict[str, str]:
    return {"resource": resource, "namespace": "default", "name": "p", "subresource": subresource}


def bound(about: dict[str, str], **changes: Any) -> dict[str, Any]:
    return {**audited(objectRef=about, requestObject=BINDING, responseObject=SUCCESS), **changes}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (audited(), [("revision", "7")]),
        (audited("patch"), [("revision", "7")]),
        (audited("patch", requestURI="/api/v1/x/p?fieldManager=me"), [("revision", "7")]),
        (
            audited(responseObject={"kind": "Table", "metadata": {"resourceVersion": "8"}}),
            [("revision", "8")],
        ),
        (audited("delete"), [("revision", "7")]),
        (audited("delete", responseObject=GONE), [("deleted", "u1")]),
        (audited("delete", responseObject=None, responseStatus={**GONE, "code": 200}), [("deleted", "u1")]),
        (audited("delete", responseObject=GONE, requestURI="/api/v1/x/p?dryRun=All"), []),
        (audited("patch", requestURI="/api/v1/x/p?a=b&dryRun=All"), []),
        (audited("patch", responseObject={"metadata": MARKED}), [("revision", "7"), ("deleted", "u1")]),
        (audited("patch", responseObject={"metadata": {**MARKED, "finalizers": ["a"]}}), [("revision", "7")]),
        (audited("deletecollection", responseObject=LIST), [("collected", "u1"), ("collected", "u2")]),
        (bound(ref("pods", "binding")), [("bound", "default", "p", "n")]),
        (bound(ref("bindings")), [("bound", "default", "p", "n")]),
        (bound(ref("pods", "eviction")), []),
        (bound(ref("pods", "binding"), responseStatus={"code": 409}), []),
        (audited("get"), []),
        (audited("deletecollection"), []),
        (audited(stage="RequestReceived"), []),
        (audited(responseStatus={"code": 409}), []),
        (audited(responseStatus=None), []),
        (audited(responseObject=None), []),
        (audited(responseObject={"metadata": {"resourceVersion": "x"}}), []),
        (audited(responseObject={"metadata": {"resourceVersion": "9" * 5000}}), []),
        (audited(stageTimestamp="never"), []),
    ],
)
def test_what_requests_claim(event: dict[str, Any], expected: list[Ground]):
    """Writes that succeeded name their revision, deletions the uids, bindings pod and node; nothing else."""
    assert grounds(event) == expected


@pytest.mark.parametrize("name", [*audited(), "impersonatedUser", "objectRef", "requestObject", "requestURI"])
@pytest.mark.parametrize("value", [None, 5, "x", [], [1], {}, {"metadata": 5}, {"details": 5, "code": "x"}])
def test_malformed_events_raise_nothing(name: str, value: Any):
    """A part of another type is as none."""
    for event in (audited("delete", responseObject=GONE), bound(ref("pods", "binding"))):
        claims_of({**event, name: value}, "1.36.3", component_of)


def test_an_impersonated_user_is_the_author():
    """The API server acts as that user."""
    (claim,) = claims_of(audited(impersonatedUser={"username": "bob"}), "1.36.3", component_of)
    assert claim.author.user == "bob"


def written(revision: int, verb: Verb = Verb.CREATE, **changes: Any) -> Event:
    event = Event(revision, verb, pod(), "u1", b"{}", 0, None, API_SERVER, START, revision)
    return event._replace(**changes)


def authors(event: Event, *claims: Claim) -> list[Author]:
    return [author for _, author in joined([written_of(event)], claims)]


def claim(*ground: str, author: Author = ALICE) -> Claim:
    return Claim(ground or ("revision", "7"), author, START - SECOND, START + SECOND)


BOB = ALICE._replace(user="bob")
NODE, NO_NODE = b'{"spec":{"nodeName":"n"}}', b'{"spec":{},"x":{"nodeName":"n"}}'


def test_claims_count_by_what_they_share_with_writes():
    """The write at the revision, deletions by uid, and the binding of a pod get their author and place."""
    claims = [claim(), claim("deleted", "u1", author=BOB), claim("collected", "u2")]
    events = [written(7), written(8, Verb.UPDATE), written(9, Verb.DELETE, sub=2)]
    events.append(written(10, Verb.DELETE, uid="u2"))
    found = [*joined(map(written_of, events), claims)]
    assert found == [((7, 0), ALICE), ((9, 2), BOB), ((10, 0), ALICE)]


def test_a_binding_is_the_write_that_gives_the_node():
    """Neither a write before nor one after it, nor another node."""
    binding = claim("bound", "default", "a", "n")
    assert authors(written(7, Verb.UPDATE, value=NODE, previous_value=NO_NODE), binding) == [ALICE]
    assert authors(written(7, Verb.UPDATE, value=NODE, previous_value=NODE), binding) == []
    assert authors(written(7, Verb.UPDATE, value=NO_NODE, previous_value=b"{}"), binding) == []
    assert authors(written(7, Verb.CREATE, value=NODE), binding) == []
    other = claim("bound", "default", "a", "m")
    assert authors(written(7, Verb.UPDATE, value=NODE, previous_value=NO_NODE), other) == []


def test_nothing_is_guessed():
    """An older revision of a request without effect, the end of a lease, and contradictions are left."""
    assert authors(written(7)) == []
    assert authors(written(7, time=START - 2 * SECOND), claim()) == []
    assert authors(written(7, time=START + 2 * SECOND), claim()) == []
    assert authors(written(7, Verb.DELETE, uid="u2"), claim("deleted", "u1")) == []
    assert authors(written(7, Verb.UPDATE), claim("deleted", "u1")) == []
    assert authors(written(7, Verb.DELETE, lease=5), claim("collected", "u1")) == []
    assert authors(written(7), claim(), claim(author=BOB)) == []
    assert authors(written(7), claim(), claim()) == [ALICE]

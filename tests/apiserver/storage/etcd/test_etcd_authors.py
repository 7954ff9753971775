"""Authors of a real API server's writes: what its audit events claim, and which claims count."""

from datetime import timedelta
from typing import Any

import pytest
from storage_cases import AUTHOR, START, pod

from kubeskew.apiserver.registry.requests.scope import component_of
from kubeskew.apiserver.storage.etcd.authors import Claim, claim_of, joined
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


def claimed(event: dict[str, Any]) -> Claim | None:
    return claim_of(event, "1.36.3", component_of)


GONE = {"kind": "Status", "status": "Success", "details": {"name": "a", "kind": "pods", "uid": "u1"}}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (audited(), (7, "")),
        (audited("patch"), (7, "")),
        (audited("delete"), (7, "")),
        (audited("delete", responseObject=GONE), (0, "u1")),
        (audited("delete", responseObject=None, responseStatus={**GONE, "code": 200}), (0, "u1")),
        (audited("get"), None),
        (audited("deletecollection"), None),
        (audited(stage="RequestReceived"), None),
        (audited(responseStatus={"code": 409}), None),
        (audited(responseStatus=None), None),
        (audited(responseObject=None), None),
        (audited(responseObject={"metadata": {"resourceVersion": "x"}}), None),
        (audited(stageTimestamp="never"), None),
    ],
)
def test_what_requests_claim(event: dict[str, Any], expected: tuple[int, str] | None):
    """Writes that succeeded name their revision, deletions that took place the uid; no other event counts."""
    claim = claimed(event)
    assert (claim and (claim.revision, claim.uid)) == expected
    assert claim is None or claim.author == ALICE


def test_an_impersonated_user_is_the_author():
    """The API server acts as that user."""
    claim = claimed(audited(impersonatedUser={"username": "bob"}))
    assert claim is not None
    assert claim.author.user == "bob"


def written(revision: int, verb: Verb = Verb.CREATE, **changes: Any) -> Event:
    event = Event(revision, verb, pod(), "u1", b"{}", 0, None, API_SERVER, START, revision)
    return event._replace(**changes)


def authors(event: Event, *claims: Claim) -> list[Author]:
    return [author for _, author in joined([event], claims, API_SERVER)]


def claim(revision: int = 7, uid: str = "", author: Author = ALICE) -> Claim:
    return Claim(revision, uid, author, START - SECOND, START + SECOND)


def test_claims_count_by_revision_and_uid():
    """The write at the revision, and the deletion of the object, get their author and place."""
    claims = [claim(), claim(0, "u1", ALICE._replace(user="bob"))]
    events = [written(7), written(8, Verb.UPDATE), written(9, Verb.DELETE, sub=2)]
    assert [*joined(events, claims, API_SERVER)] == [
        ((7, 0), ALICE), ((9, 2), ALICE._replace(user="bob"))
    ]  # fmt: skip


def test_nothing_is_guessed():
    """An older revision of a request without effect, an author that is known, and contradictions are left."""
    assert authors(written(7)) == []
    assert authors(written(7, time=START - 2 * SECOND), claim()) == []
    assert authors(written(7, time=START + 2 * SECOND), claim()) == []
    assert authors(written(7, author=AUTHOR), claim()) == []
    assert authors(written(7, Verb.DELETE, uid="u2"), claim(0, "u1")) == []
    assert authors(written(7, Verb.UPDATE), claim(0, "u1")) == []
    assert authors(written(7), claim(), claim(author=ALICE._replace(user="bob"))) == []
    assert authors(written(7), claim(), claim()) == [ALICE]

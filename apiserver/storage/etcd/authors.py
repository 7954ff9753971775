"""Authors of a real API server's writes, by its audit events: joined by what both sides know for certain.

The answer of a create, update or patch has the revision that it wrote, in events of the level
RequestResponse. A deletion that took place answers the object's uid, of which the log has one deletion; a
deletion of a collection answers the objects that there were, and a write that took the last finalizer of an
object to be deleted answers the object, at the revision before. A binding succeeds once for a pod, and
answers nothing: the log has one write that gives the pod its node.

A request that changed nothing answers an older revision; so a write counts only if the log has it within the
time of the request, by the clock that both share. What is not joined so keeps the API server as its writer;
nothing is guessed.

Source: k8s.io/apiserver/pkg/apis/audit/v1/types.go, pkg/audit/request.go and
pkg/registry/generic/registry/store.go, 1.31 to 1.36; answers as kube-apiserver 1.36.3 sends them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson

from kubeskew.apiserver.storage.records import Author, Event, Place, Verb

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_COMPLETE = "ResponseComplete"
_PODS = "pods"
_DIGITS = 18  # of a revision at most, so that every database has the number
_NODE_NAME = b'"nodeName":"'

# What a write and a claim share: ("revision", "7"), ("deleted", uid), ("collected", uid),
# ("bound", namespace, name, node).
Ground = tuple[str, ...]


class Claim(NamedTuple):
    """A request says that it made the write of `ground`."""

    ground: Ground
    author: Author
    received: datetime
    answered: datetime

    def fits(self, written: "Written") -> bool:
        return self.ground in written.grounds and self.received <= written.time <= self.answered


class Written(NamedTuple):
    """An event of the log, as far as claims concern it."""

    place: Place
    time: datetime
    grounds: tuple[Ground, ...]


def written_of(event: Event) -> Written:
    grounds: list[Ground] = [("revision", str(event.revision))]
    if event.verb is Verb.DELETE:
        grounds.append(("deleted", event.uid))
        if not event.lease:  # else it may be the lease that ended it, while a request went through the others
            grounds.append(("collected", event.uid))
    elif event.key.resource == _PODS and event.previous_value is not None:
        node = _node(event.value)
        if node and not _node(event.previous_value):
            grounds.append(("bound", event.key.namespace, event.key.name, node))
    return Written((event.revision, event.sub), event.time, tuple(grounds))


def _node(value: bytes) -> str:
    if _NODE_NAME not in value:
        return ""
    try:
        node = orjson.loads(value)["spec"]["nodeName"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return node if isinstance(node, str) else ""


def claims_of(
    audited: Mapping[str, Any], server_version: str, component_of: Callable[[str], tuple[str, str]]
) -> list[Claim]:
    """Reads an audit event (audit.k8s.io/v1); empty if it is of no write, or names nothing that it wrote, or
    is malformed.

    `component_of` finds component and version in a user agent.
    """
    code = _part(audited, "responseStatus").get("code")
    if audited.get("stage") != _COMPLETE or _text(audited, "verb") not in _WRITES:
        return []
    if not isinstance(code, int) or not 200 <= code < 300 or _is_dry_run(_text(audited, "requestURI")):
        return []
    grounds = list(dict.fromkeys(_grounds(audited)))
    received, answered = _time(audited, "requestReceivedTimestamp"), _time(audited, "stageTimestamp")
    if not grounds or received is None or answered is None:
        return []
    user = _part(audited, "impersonatedUser") or _part(audited, "user")
    component, version = component_of(_text(audited, "userAgent"))
    author = Author(_text(user, "username"), component, version, server_version, _text(audited, "auditID"))
    return [Claim(ground, author, received, answered) for ground in grounds]


def _part(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, dict) else {}


def _text(parent: Mapping[str, Any], name: str) -> str:
    found = parent.get(name)
    return found if isinstance(found, str) else ""


def _time(parent: Mapping[str, Any], name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(parent, name))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_dry_run(uri: str) -> bool:
    try:
        return "dryRun" in parse_qs(urlsplit(uri).query)
    except ValueError:
        return False


def _grounds(audited: Mapping[str, Any]) -> Iterator[Ground]:
    answer = _part(audited, "responseObject")
    metadata, verb = _part(answer, "metadata"), audited["verb"]
    if verb == "deletecollection":
        items = answer.get("items")
        for item in items if isinstance(items, list) else ():
            uid = _text(_part(item, "metadata"), "uid") if isinstance(item, dict) else ""
            if uid:
                yield "collected", uid
        return
    revision = _text(metadata, "resourceVersion")
    if revision.isascii() and revision.isdigit() and len(revision) <= _DIGITS and int(revision) > 0:
        yield "revision", str(int(revision))
    if verb == "delete":  # a Status with the uid, once the object is gone, at every level of auditing
        for status in (answer, _part(audited, "responseStatus")):
            if uid := _text(_part(status, "details"), "uid"):
                yield "deleted", uid
    elif verb != "create" and metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
        yield from (("deleted", uid) for uid in [_text(metadata, "uid")] if uid)
    yield from _binding(audited)


def _binding(audited: Mapping[str, Any]) -> Iterator[Ground]:
    about, asked = _part(audited, "objectRef"), _part(audited, "requestObject")
    place = _text(about, "resource"), _text(about, "subresource")
    if place not in {(_PODS, "binding"), ("bindings", "")} or audited["verb"] != "create":
        return
    node = _text(_part(asked, "target"), "name")
    if node:
        yield "bound", _text(about, "namespace"), _text(about, "name"), node


def joined(writes: Iterable[Written], claims: Iterable[Claim]) -> Iterator[tuple[Place, Author]]:
    """Yields the authors of `writes`, as far as the claims that fit are of exactly one."""
    by_ground: dict[Ground, list[Claim]] = {}
    for claim in claims:
        by_ground.setdefault(claim.ground, []).append(claim)
    for written in writes:
        fitting = (
            claim
            for ground in written.grounds
            for claim in by_ground.get(ground, ())
            if claim.received <= written.time <= claim.answered
        )
        authors = list(dict.fromkeys(claim.author for claim in fitting))
        if len(authors) == 1:
            yield written.place, authors[0]

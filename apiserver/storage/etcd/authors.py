"""Authors of a real API server's writes, by its audit events: joined by what both sides know for certain.

The answer of a create, update or patch has the revision that it wrote, in events of the level
RequestResponse. The answer of a deletion that took place has the object's uid, of which the log has one
deletion. A request that changed nothing answers an older revision; so a write counts only if the log has it
within the time of the request, by the clock that both share. What is not joined so keeps the API server as
its writer; nothing is guessed.

Source: k8s.io/apiserver/pkg/apis/audit/v1/types.go and pkg/audit/request.go, 1.31 to 1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kubeskew.apiserver.storage.records import Author, Event, Verb

Place = tuple[int, int]  # revision and sub-revision
_WRITES = frozenset({"create", "update", "patch", "delete"})
_COMPLETE = "ResponseComplete"


class Claim(NamedTuple):
    """A request says that it wrote `revision`, or, if that is 0, that it deleted the object of `uid`."""

    revision: int
    uid: str
    author: Author
    received: datetime
    answered: datetime


def claim_of(
    audited: Mapping[str, Any], server_version: str, component_of: Callable[[str], tuple[str, str]]
) -> Claim | None:
    """Reads an audit event (audit.k8s.io/v1); None if it is of no write, or names nothing that it wrote.

    `component_of` finds component and version in a user agent.
    """
    code = (audited.get("responseStatus") or {}).get("code", 0)
    if audited.get("stage") != _COMPLETE or audited.get("verb") not in _WRITES or not 200 <= code < 300:
        return None
    revision, uid = _revision(audited), _deleted_uid(audited)
    if not revision and not uid:
        return None
    try:
        received = datetime.fromisoformat(audited["requestReceivedTimestamp"])
        answered = datetime.fromisoformat(audited["stageTimestamp"])
    except (KeyError, TypeError, ValueError):
        return None
    user = audited.get("impersonatedUser") or audited.get("user") or {}
    component, version = component_of(audited.get("userAgent", ""))
    author = Author(user.get("username", ""), component, version, server_version, audited.get("auditID", ""))
    return Claim(revision, uid, author, received, answered)


def _revision(audited: Mapping[str, Any]) -> int:
    metadata = (audited.get("responseObject") or {}).get("metadata") or {}
    revision = metadata.get("resourceVersion", "") if isinstance(metadata, dict) else ""
    return int(revision) if isinstance(revision, str) and revision.isascii() and revision.isdigit() else 0


def _deleted_uid(audited: Mapping[str, Any]) -> str:
    """Deletions answer a Status with the uid once the object is gone, at every level of auditing."""
    if audited["verb"] != "delete":
        return ""
    answers = (audited.get("responseObject"), audited.get("responseStatus"))
    uids = (answer["details"].get("uid", "") for answer in answers if answer and answer.get("details"))
    return str(next(uids, ""))


def joined(
    events: Iterable[Event], claims: Iterable[Claim], unknown: Author
) -> Iterator[tuple[Place, Author]]:
    """Yields the authors of events whose author is `unknown`, as far as exactly one of the `claims` fits."""
    by_revision: dict[int, list[Claim]] = {}
    by_uid: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.revision:
            by_revision.setdefault(claim.revision, []).append(claim)
        else:
            by_uid.setdefault(claim.uid, []).append(claim)
    for event in events:
        if event.author != unknown:
            continue
        found = [claim for claim in by_revision.get(event.revision, ()) if claim.uid in ("", event.uid)]
        if event.verb is Verb.DELETE:
            found += by_uid.get(event.uid, ())
        fitting = [claim for claim in found if claim.received <= event.time <= claim.answered]
        authors = list(dict.fromkeys(claim.author for claim in fitting))
        if len(authors) == 1:
            yield (event.revision, event.sub), authors[0]

"""Says beforehand what an API server of another version would make of the stored objects.

Each object is read by that server's own codec. What cannot be decoded makes reads fail. What is decoded loses
with the next write the fields that the version does not know. What is decoded may still break a rule of the
version, so that it refuses every update that does not mend it. What the version does not serve stays stored,
where nobody sees it. Defaults that a version adds are no change. Custom resources are read along their stored
definitions; what a webhook has to convert is told, for an audit calls none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError, decoded
from kubeskew.conformance.evidence.changes import FieldChange, changes, value_changes
from kubeskew.conformance.storage.servers import Settings, StorageServer, is_custom

UNREADABLE, UNSERVED, LOST, CHANGED = "unreadable", "unserved", "lost", "changed"
WEBHOOK, REFUSED = "webhook", "refused"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that happens to one object. `details` are the server's words, or the fields as people read
    them; `fields` are these, whole."""

    key: Key
    revision: int
    stored: str  # the apiVersion that it is stored in
    what: str
    details: tuple[str, ...] = ()
    fields: tuple[FieldChange, ...] = field(default=(), compare=False)


def audit(entries: Iterable[Entry], settings: Settings) -> list[AuditFinding]:
    """Returns what a server of the version would make of the objects, in the order of their keys."""
    stored = [*entries]
    return [*findings(stored, StorageServer(settings, stored))]


def findings(entries: Iterable[Entry], server: StorageServer) -> Iterator[AuditFinding]:
    """Yields what a server makes of the objects, in the order of their keys."""
    for entry in sorted(entries, key=lambda entry: entry.key):
        for each in _of_entry(server, entry):
            yield AuditFinding(entry.key, entry.revision, *each)


def _of_entry(server: StorageServer, entry: Entry) -> Iterator[tuple[Any, ...]]:
    try:
        stored = decoded(entry.value)
    except UnreadableError as error:
        yield "", UNREADABLE, (error.text,)
        return
    api_version = stored["apiVersion"]
    if not server.keeps(entry):
        missing = "no accepted definition has" if is_custom(stored) else f"{server.version} has no"
        yield api_version, UNSERVED, (f"{missing} {entry.key.resource}",)
        return
    try:
        read = server.read(entry)
    except UnreadableError as error:
        yield api_version, UNREADABLE, (error.text,)
        return
    if not server.serves(entry):
        yield api_version, UNSERVED
    converted = server.conversion(entry)
    if converted:
        yield api_version, WEBHOOK, (converted,)
    differing = differences(stored, read)
    gone = [change for change in differing if change.op == "remove" and _says_something(change)]
    changed = [change for change in differing if change.op == "replace"]
    for what, details, fields in told(gone, changed):
        yield api_version, what, details, fields
    refusals = () if converted else tuple(server.refusals(entry))
    if refusals:
        yield api_version, REFUSED, refusals


def told(
    gone: Sequence[FieldChange], changed: Sequence[FieldChange]
) -> Iterator[tuple[str, tuple[str, ...], tuple[FieldChange, ...]]]:
    """Yields what is found of fields that are gone, and of those that changed: what, its details, the
    fields."""
    if gone:
        yield LOST, tuple(str(change)[2:] for change in gone), tuple(gone)
    if changed:
        yield CHANGED, tuple(map(str, changed)), tuple(changed)


def _says_something(change: FieldChange) -> bool:
    """Decides whether a field that is gone had told anything: a null tells nothing, nor does an empty status,
    which Go writes of a struct without any."""
    if change.path.rpartition(".")[2] == "status":
        return bool(change.before)
    return change.before is not None


def differences(before: Any, after: Any) -> list[FieldChange]:
    """Returns what differs between objects, field by field; items of lists without keys count by position."""
    return _expanded(changes(before, after))


def _expanded(found: Iterable[FieldChange]) -> list[FieldChange]:
    expanded = []
    for change in found:
        old, new = change.before, change.after
        aligned = isinstance(old, list) and isinstance(new, list) and len(old) == len(new)
        if change.op == "replace" and aligned and all(isinstance(each, dict) for each in (*old, *new)):
            for position, (one, other) in enumerate(zip(old, new, strict=True)):
                inner = _expanded(value_changes(one, other))
                expanded += [replace(each, path=f"{change.path}.{position}.{each.path}") for each in inner]
        else:
            expanded.append(change)
    return expanded

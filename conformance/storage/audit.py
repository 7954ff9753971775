"""Predicts the effect of an API server of another version on the stored objects.

Each object is read by that server's own codec. Objects that cannot be decoded make reads fail. Others lose,
with the next write, the fields that the version does not know. An object that is decoded may still break a
rule of the version, so that every update is refused that does not mend it. Objects of kinds that the version
does not serve stay stored, where nobody sees them. Defaults that a version adds are no change. Custom
resources are read along their stored definitions; conversions by webhooks are reported, for an audit calls
none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubeskew.apiserver.storage.etcd.keys import OPAQUE, is_at_object
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError, decoded
from kubeskew.conformance.evidence.changes import FieldChange, changes, value_changes
from kubeskew.conformance.storage.servers import Settings, StorageServer, is_custom

UNREADABLE, UNSERVED, LOST, CHANGED = "unreadable", "unserved", "lost", "changed"
WEBHOOK, REFUSED = "webhook", "refused"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One effect on one object. `details` are the server's messages, or the fields as text; `fields` are
    these fields, whole."""

    key: Key
    revision: int
    stored: str  # the apiVersion that it is stored in
    what: str
    details: tuple[str, ...] = ()
    fields: tuple[FieldChange, ...] = field(default=(), compare=False)


def audit(entries: Iterable[Entry], settings: Settings) -> list[AuditFinding]:
    """Findings come in the order of the objects' keys."""
    stored = [*objects(entries)]
    return [*findings(stored, StorageServer(settings, stored))]


def objects(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leaves out keys of etcd's API that no API server reads as objects."""
    return (entry for entry in entries if entry.key.resource != OPAQUE or is_at_object(entry.key))


def findings(entries: Iterable[Entry], server: StorageServer) -> Iterator[AuditFinding]:
    """Findings come in the order of the objects' keys."""
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
    for what, details, fields in field_findings(gone, changed):
        yield api_version, what, details, fields
    refusals = () if converted else tuple(server.refusals(entry))
    if refusals:
        yield api_version, REFUSED, refusals


def field_findings(
    gone: Sequence[FieldChange], changed: Sequence[FieldChange]
) -> Iterator[tuple[str, tuple[str, ...], tuple[FieldChange, ...]]]:
    """Fields that are gone are one finding, those that changed another: its kind, its details, the fields."""
    if gone:
        yield LOST, tuple(str(change)[2:] for change in gone), tuple(gone)
    if changed:
        yield CHANGED, tuple(map(str, changed)), tuple(changed)


def _says_something(change: FieldChange) -> bool:
    """A null carries no information, nor does an empty status, which Go writes of a struct without any."""
    if change.path.rpartition(".")[2] == "status":
        return bool(change.before)
    return change.before is not None


def differences(before: Any, after: Any) -> list[FieldChange]:
    """Items of lists without keys are compared by position."""
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

"""Projection of the log in pure functions: decisions about changes, objects that events leave, and checksums.

Every event carries two checksums. `digest` is the sum of the checksums of all objects that there are after
it, so that the newest event says what the table of objects must hold; a commit brings it up to date by what
it changes. `checksum` is over the whole row. Both are CRC-32, which finds every damage of up to 32 bits in a
row and all but one in four thousand million of the others: they guard against accidents, not against forgers.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from kubeskew.apiserver.storage.interfaces import RevisionMismatchError
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Verb

Outcome = Event | RevisionMismatchError


def entry_sum(entry: Entry) -> int:
    """Covers all columns (CRC-32)."""
    return crc32(as_bytes(entry.value), _head(entry))


def _head(entry: Entry) -> int:
    (resource, namespace, name), uid, revision, created, _ = entry
    return crc32(f"{resource}\0{namespace}\0{name}\0{uid}\0{revision}\0{created}\0".encode())


def as_bytes(value: Any) -> bytes:
    """Damage can change the type of a value: then its text must not pass for what was written."""
    return value if value.__class__ is bytes else repr(value).encode("utf-8", "backslashreplace")


def event_sum(state: int, row: Sequence[Any]) -> int:
    """Covers a row of `events` without its own column; `state` is the checksum of the object that the row
    leaves.
    """
    _, _, _, _, _, verb, _, previous, _, user, component, version, server, request, time, digest = row
    rest = f"{verb}\0{previous}\0{user}\0{component}\0{version}\0{server}\0{request}\0{time}\0{digest}"
    return crc32(rest.encode("utf-8", "backslashreplace"), state)


def is_intact(row: Sequence[Any]) -> bool:
    state = row_state_sum(row)
    return bool(event_sum(state, row[:16]) == row[16])


def row_state_sum(row: Sequence[Any]) -> int:
    """Works on rows with damage of any kind."""
    head = f"{row[1]}\0{row[2]}\0{row[3]}\0{row[4]}\0{row[0]}\0{row[8]}\0"
    return crc32(as_bytes(row[6]), crc32(head.encode("utf-8", "backslashreplace")))


@dataclass(slots=True)
class State:
    """`last` is the revision of the object's last event, a deletion's if it has no entry."""

    current: Entry | None
    last: int


@dataclass(slots=True)
class BatchOutcome:
    """Each change has one outcome; each event comes with the revision that it continues."""

    outcomes: list[Outcome] = field(default_factory=list)
    events: list[tuple[Event, int]] = field(default_factory=list)


def decide(changes: Sequence[Change], states: dict[Key, State], head: int) -> BatchOutcome:
    """Decides `changes` over `states`, which is brought up to date; revisions count on from `head`."""
    decided = BatchOutcome()
    for change in changes:
        state = states[change.key]
        current = state.current
        if (current.revision if current else 0) != change.expected:
            decided.outcomes.append(RevisionMismatchError(change.key, current))
            continue
        head += 1
        event = _event(change, current, head)
        decided.outcomes.append(event)
        decided.events.append((event, state.last))
        state.current, state.last = after(event), head
    return decided


def _event(change: Change, current: Entry | None, revision: int) -> Event:
    return Event(
        revision=revision,
        verb=change.verb,
        key=change.key,
        uid=change.uid,
        value=change.value,
        previous=change.expected,
        previous_value=current.value if current else None,
        author=change.author,
        time=change.time,
        created=current.created if current else revision,
    )


def after(event: Event) -> Entry | None:
    if event.verb is Verb.DELETE:
        return None
    return Entry(event.key, event.uid, event.revision, event.created, event.value)


def check(change: Change) -> None:
    """Raises ValueError for a change that no state allows: a create that expects a revision, or any other
    that does not.
    """
    if (change.verb is Verb.CREATE) != (change.expected == 0):
        raise ValueError(f"{change.verb} of {change.key} expecting revision {change.expected}")


def fold(events: Iterable[Event], start: Mapping[Key, Entry] | None = None) -> dict[Key, Entry]:
    """Applies `events`, which are in order, to the state `start` (empty if None).

    In a compacted log an object may begin with an update, and a deletion may find nothing.

    """
    objects = dict(start or {})
    for event in events:
        left = after(event)
        if left is None:
            objects.pop(event.key, None)
        else:
            objects[event.key] = left
    return objects


def encoded(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Goes object by object in key order: all columns, each with its length before it."""
    for entry in sorted(entries, key=lambda entry: tuple(map(str, entry.key))):  # damage makes other types
        key = entry.key
        texts = (key.resource, key.namespace, key.name, entry.uid, str(entry.revision), str(entry.created))
        for part in (*(str(text).encode() for text in texts), as_bytes(entry.value)):
            yield len(part).to_bytes(4, "big") + part


def digest(entries: Iterable[Entry]) -> str:
    """Hashes (SHA-256, in hex) are equal if and only if all bytes of all objects are."""
    found = hashlib.sha256()
    for part in encoded(entries):
        found.update(part)
    return found.hexdigest()

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

from kubeskew.apiserver.storage.interfaces import (
    LeaseChangedError,
    RevisionMismatchError,
    WrittenSinceError,
)
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Transaction, Verb

Refusal = RevisionMismatchError | WrittenSinceError | LeaseChangedError
Outcome = Event | tuple[int, Sequence[Event]] | Refusal


def entry_sum(entry: Entry) -> int:
    """Covers all columns (CRC-32)."""
    return crc32(as_bytes(entry.value), _head(entry))


def _head(entry: Entry) -> int:
    (resource, namespace, name), uid, revision, created, _, updates, lease = entry
    head = f"{resource}\0{namespace}\0{name}\0{uid}\0{revision}\0{created}\0"
    if updates or lease:
        head += f"{updates}\0{lease}\0"
    return crc32(head.encode())


def as_bytes(value: Any) -> bytes:
    """Damage can change the type of a value: then its text must not pass for what was written."""
    return value if value.__class__ is bytes else repr(value).encode("utf-8", "backslashreplace")


def event_sum(state: int, row: Sequence[Any], sub: int = 0) -> int:
    """Covers the columns of `events` before its own, and the sub-revision of a row of `siblings`; `state` is
    the checksum of the object that the row leaves, which covers the columns after it.
    """
    _, _, _, _, _, verb, _, previous, _, user, component, version, server, request, time, digest = row
    rest = f"{verb}\0{previous}\0{user}\0{component}\0{version}\0{server}\0{request}\0{time}\0{digest}"
    if sub:
        rest += f"\0{sub}"
    return crc32(rest.encode("utf-8", "backslashreplace"), state)


def is_intact(row: Sequence[Any], sub: int = 0) -> bool:
    """`row` has the columns of `events`; `sub` is not 0 if it is one of `siblings`."""
    state = row_state_sum(row)
    return bool(event_sum(state, row[:16], sub) == row[16])


def row_state_sum(row: Sequence[Any]) -> int:
    """Works on rows with damage of any kind."""
    head = f"{row[1]}\0{row[2]}\0{row[3]}\0{row[4]}\0{row[0]}\0{row[8]}\0"
    if row[17] or row[18]:
        head += f"{row[17]}\0{row[18]}\0"
    return crc32(as_bytes(row[6]), crc32(head.encode("utf-8", "backslashreplace")))


@dataclass(slots=True)
class State:
    """`last` is the revision of the object's last event, a deletion's if it has no entry."""

    current: Entry | None
    last: int


@dataclass(slots=True)
class BatchOutcome:
    """Each change or transaction has one outcome; each event comes with the revision that it continues."""

    outcomes: list[Outcome] = field(default_factory=list)
    events: list[tuple[Event, int]] = field(default_factory=list)
    revoked: list[tuple[int, int]] = field(default_factory=list)  # leases, with the revisions of their ends


def decide(
    changes: Sequence[Change | Transaction],
    states: dict[Key, State],
    head: int,
    leases: dict[int, int] | None = None,
) -> BatchOutcome:
    """Decides `changes` over `states` and `leases`, which are brought up to date; revisions count on from
    `head`. `leases` has the renewals of those leases that are there, of all that `changes` name.
    """
    leases = {} if leases is None else leases
    decided = BatchOutcome()
    for change in changes:
        if isinstance(change, Transaction):
            head = _decide_transaction(change, states, leases, head, decided)
            continue
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


def _decide_transaction(
    transaction: Transaction,
    states: dict[Key, State],
    leases: dict[int, int],
    head: int,
    decided: BatchOutcome,
) -> int:
    """Returns the newest revision after it."""
    refusal = _refusal(transaction, states, leases, head)
    if refusal is not None:
        decided.outcomes.append(refusal)
        return head
    events = []
    if transaction.changes:
        head += 1
    for sub, change in enumerate(transaction.changes):
        state = states[change.key]
        event = _event(change, state.current, head, sub)
        events.append(event)
        decided.events.append((event, state.last))
        state.current, state.last = after(event), head
    if transaction.revokes:
        decided.revoked.append((transaction.revokes, head))
        del leases[transaction.revokes]
    decided.outcomes.append((head, events))
    return head


def _refusal(
    transaction: Transaction, states: Mapping[Key, State], leases: Mapping[int, int], head: int
) -> Refusal | None:
    if transaction.since is not None and head > transaction.since:
        return WrittenSinceError(transaction.since, head)
    for key, expected in expectations(transaction):
        current = states[key].current
        if (current.revision if current else 0) != expected:
            return RevisionMismatchError(key, current)
    lost = next((lease for lease in leases_of(transaction) if lease not in leases), 0)
    if not lost and transaction.renewals not in (None, leases.get(transaction.revokes)):
        lost = transaction.revokes
    return LeaseChangedError(lost) if lost else None


def leases_of(transaction: Transaction) -> Sequence[int]:
    """The leases that the transaction rests on."""
    return [*transaction.leases, transaction.revokes] if transaction.revokes else transaction.leases


def expectations(transaction: Transaction) -> Iterator[tuple[Key, int]]:
    """Yields the objects that the transaction rests on, also those that it changes."""
    yield from ((change.key, change.expected) for change in transaction.changes)
    yield from transaction.expected


def _event(change: Change, current: Entry | None, revision: int, sub: int = 0) -> Event:
    verb, key, uid, value, previous, author, time, lease, created, _ = change
    if current is None:
        created, previous_value, updates = created or revision, None, change.updates
    else:
        created, previous_value = created or current.created, current.value
        updates = updates_after(change, current)
        if verb is Verb.DELETE:
            lease = current.lease
            if not value:
                uid, value = current.uid, current.value
    return Event(  # in the order of the fields, which is the quickest
        revision, verb, key, uid, value, previous, previous_value, author, time, created, sub, updates, lease
    )


def updates_after(change: Change, current: Entry) -> int:
    """A deletion has those of the last state."""
    return change.updates or current.updates + (change.verb is not Verb.DELETE)


def after(event: Event) -> Entry | None:
    if event.verb is Verb.DELETE:
        return None
    return Entry(event.key, event.uid, event.revision, event.created, event.value, event.updates, event.lease)


def check(change: Change | Transaction) -> None:
    """Raises ValueError for a change that no state allows: a create that expects a revision, or any other
    that does not; for a transaction with such a change, or with two of one object.
    """
    if isinstance(change, Transaction):
        for part in change.changes:
            check(part)
        if len({part.key for part in change.changes}) < len(change.changes):
            raise ValueError("a transaction changes an object twice")
        return
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

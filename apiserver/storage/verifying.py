"""Verifies a store: replays its log and compares the result with everything else in it.

A start checks what costs little: how many events there are, the newest revision and the digest of all
objects. Only where these differ, or when somebody asks, the whole log is gone through, and every difference
is told with its key and revision.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apiserver.storage.checksums import entry_sum, is_intact
from kubeskew.apiserver.storage.failures import DamageError
from kubeskew.apiserver.storage.metadata import Metadata, Range
from kubeskew.apiserver.storage.records import DAMAGED, EMPTY_REVISION, Entry, Key, Verb
from kubeskew.apiserver.storage.replay import digest
from kubeskew.apiserver.storage.sessions import Session
from kubeskew.apiserver.storage.statements import entry_of

CHUNK_EVENTS = 1000
NAMED_MAX = 5  # differences that an error names

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Describes something that is not as it was written: `what` in a word, and in a sentence."""

    what: str  # event-damaged, events-lost, object-missing, object-differs, object-unknown, digest-differs
    revision: int
    key: Key | None
    text: str


@dataclass(slots=True)
class Replay:
    """Holds the outcome of a replay: what the log comes to, what the table of objects holds, where they
    differ.
    """

    revision: int
    events: int
    objects: dict[Key, Entry]  # as the log leaves them
    projection: list[Entry]
    metadata: Metadata
    digest: int  # of the newest event
    differences: list[Difference] = field(default_factory=list)

    @property
    def replayed_hash(self) -> str:
        """Returns the SHA-256 of the objects that the log comes to."""
        return digest(self.objects.values())

    @property
    def projection_hash(self) -> str:
        """Returns the SHA-256 of the table of objects."""
        return digest(self.projection)


def load(session: Session, mark: int) -> tuple[int, list[Entry]]:
    """Returns the revision and the objects of the projection, checked at little cost. Raises DamageError.

    Objects that a repair found unreadable come with DAMAGED as their value.
    """
    metadata = Metadata.read(session)
    newest, kept = _newest(session)
    head = max(newest, metadata.floor)
    entries = [entry_of(row) for row in session.all("entries")]
    total = sum(map(entry_sum, entries))
    count = session.all("count")[0][0]
    if head < mark or total != kept + metadata.digest_offset or count != metadata.expected(head):
        raise DamageError(_message(verify(session, mark).differences))
    if metadata.unreadable:
        entries = [_unless(entry, metadata.unreadable) for entry in entries]
    return head, entries


def _unless(entry: Entry, unreadable: frozenset[int]) -> Entry:
    return entry._replace(value=DAMAGED) if entry.revision in unreadable else entry


def _newest(session: Session) -> tuple[int, int]:
    """Returns the newest event's revision and digest."""
    rows = session.all("newest")
    return rows[0] if rows else (EMPTY_REVISION, 0)


def _message(differences: Sequence[Difference]) -> str:
    named = "; ".join(difference.text for difference in differences[:NAMED_MAX])
    more = len(differences) - NAMED_MAX
    return f"the store is damaged: {named}{f'; and {more} more' if more > 0 else ''}"


def verify(session: Session, mark: int = 0) -> Replay:
    """Replays the whole log and compares. `mark` is the revision that must have been committed."""
    metadata = Metadata.read(session)
    newest, kept = _newest(session)
    head = max(newest, metadata.floor)
    projection = [entry_of(row) for row in session.all("entries")]
    replay = Replay(head, 0, {}, projection, metadata, kept)
    replay.differences += _fold(all_events(session), replay)
    if head < mark:
        replay.differences.append(lost_tail(head, mark))
    missing = metadata.expected(head) - replay.events
    if missing and not any(difference.what == "events-lost" for difference in replay.differences):
        text = f"the log has {replay.events} events and should have {replay.events + missing}"
        replay.differences.append(Difference("events-lost", head, None, text))
    differences = compare(replay.objects, projection)
    replay.differences += differences
    total = sum(map(entry_sum, projection))
    if total != kept + metadata.digest_offset and not replay.differences:
        text = f"the digest kept with revision {newest} is not that of the objects, which are as in the log"
        replay.differences.append(Difference("digest-differs", newest, None, text))
    return replay


def all_events(session: Session) -> Iterator[Row]:
    """Yields every row of `events`, oldest first."""
    revision = 0
    while rows := session.all("all_events", revision=revision, limit=CHUNK_EVENTS):
        yield from rows
        revision = rows[-1][0]


def _fold(rows: Iterator[Row], replay: Replay) -> Iterator[Difference]:
    """Brings the objects of `replay` up to date row by row; returns what is wrong with the events."""
    last = replay.metadata.base
    for row in rows:
        revision = row[0]
        replay.events += 1
        if revision > last + 1:
            yield from _gap(last + 1, revision - 1, replay.metadata.lost)
        last = max(last, revision)
        if revision not in replay.metadata.damaged and not is_intact(row):
            yield damaged_event(row)
        put(replay.objects, row)
    if replay.metadata.floor > last:
        yield from _gap(last + 1, replay.metadata.floor, replay.metadata.lost)


def put(objects: dict[Key, Entry], row: Row) -> None:
    """Brings `objects` up to date by a row of `events`, as it stands there."""
    key = Key(row[1], row[2], row[3])
    if row[5] == Verb.DELETE.value:
        objects.pop(key, None)
    else:
        objects[key] = Entry(key, row[4], row[0], row[8], row[6])


def _gap(first: int, last: int, known: Sequence[Range]) -> Iterator[Difference]:
    """Reports that the revisions from `first` to `last` are not there, unless that is known already."""
    if any(start <= first and last <= end for start, end in known):
        return
    yield Difference("events-lost", first, None, f"the log has no {_events(first, last)}")


def lost_tail(head: int, mark: int) -> Difference:
    """Reports that the newest events are gone."""
    text = f"the log ends at revision {head}, though {mark} was committed: {_events(head + 1, mark)} lost"
    return Difference("events-lost", head + 1, None, text)


def _events(first: int, last: int) -> str:
    return f"event {first}" if first == last else f"events {first} to {last}"


def damaged_event(row: Row) -> Difference:
    """Reports that an event is not as it was written."""
    key = Key(str(row[1]), str(row[2]), str(row[3]))
    text = f"{key.resource} {key.path}: its event at revision {row[0]} is not what was written"
    return Difference("event-damaged", row[0], key, text)


def compare(objects: Mapping[Key, Entry], projection: Sequence[Entry]) -> list[Difference]:
    """Returns the differences of the table of objects from the result of the log, in the order of
    revisions.
    """
    differences = []
    present = set()
    for entry in projection:
        expected, key = objects.get(entry.key), entry.key
        present.add(key)
        where = f"{key.resource} {key.path}"
        if expected is None:
            text = f"{where} is in the table of objects (revision {entry.revision}), but not in the log"
            differences.append(Difference("object-unknown", entry.revision, key, text))
        elif entry != expected:
            text = f"{where} is not in the table of objects as the log has it at revision {expected.revision}"
            differences.append(Difference("object-differs", expected.revision, key, text))
    for key, expected in objects.items():
        if key not in present:
            where = f"{key.resource} {key.path}"
            text = f"{where} is not in the table of objects, though the log has it at revision "
            text += str(expected.revision)
            differences.append(Difference("object-missing", expected.revision, key, text))
    return sorted(differences, key=lambda difference: difference.revision)

"""Verification of a store, rebuilding of a damaged one, and checked copies of a log into another database.

A start checks what costs little: the number of events, the newest revision and the digest of all objects.
Only where these differ, or on demand, the whole log is read, and every difference is reported with its key
and revision.

An event whose checksum fails is put right only if the table of objects has the very bytes that were written,
which the checksum proves. What remains damaged, or is gone, is written down and never made up: the object
that this event left cannot be read, and revisions that are gone are not given again.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice, takewhile
from typing import Any

from kubeskew.apiserver.storage.interfaces import CompactedError, DamageError, FutureRevisionError
from kubeskew.apiserver.storage.operations import NO_LIMIT, Metadata, Range, check_order, newest, record
from kubeskew.apiserver.storage.projection import digest, entry_sum, is_intact
from kubeskew.apiserver.storage.records import (
    DAMAGED,
    EMPTY_REVISION,
    Branch,
    ComponentEvent,
    Entry,
    Key,
    Place,
    Verb,
)
from kubeskew.apiserver.storage.statements import Row, Session, entry_of, entry_row

CHUNK_EVENTS = 1000
NAMED_MAX = 5  # differences that an error names

ObjectRow = Sequence[Any]
COPY_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Difference:
    """`what` names the difference in a word, `text` in a sentence."""

    what: str  # event-damaged, events-lost, object-missing, object-differs, object-unknown, digest-differs,
    # author-unknown, database-damaged
    revision: int
    key: Key | None
    text: str


@dataclass(slots=True)
class Replay:
    """Objects by the log stand next to those in the table of objects, with the differences."""

    revision: int
    events: int
    objects: dict[Key, Entry]  # as the log leaves them
    projection: list[Entry]
    metadata: Metadata
    digest: int  # of the newest event
    further: int = 0  # events that are not the first of their revision
    gone: Difference | None = None  # of them, if nothing else is damaged
    differences: list[Difference] = field(default_factory=list)

    @property
    def replayed_hash(self) -> str:
        """Hashes the objects that the log comes to (SHA-256)."""
        return digest(self.objects.values())

    @property
    def projection_hash(self) -> str:
        """Hashes the table of objects (SHA-256)."""
        return digest(self.projection)


def load(session: Session, mark: int) -> tuple[int, list[Entry]]:
    """Reads revision and objects of the projection, checked at little cost. Raises DamageError.

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
    """Reads revision and digest of the newest event."""
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
    missing = metadata.expected(head) - (replay.events - replay.further)
    if missing and not any(difference.what == "events-lost" for difference in replay.differences):
        text = f"the log has {replay.events} events and should have {replay.events + missing}"
        replay.differences.append(Difference("events-lost", head, None, text))
    if replay.gone is not None and not replay.differences:
        replay.differences.append(replay.gone)
    replay.differences += compare(replay.objects, projection)
    total = sum(map(entry_sum, projection))
    if total != kept + metadata.digest_offset and not replay.differences:
        text = f"the digest kept with revision {newest} is not that of the objects, which are as in the log"
        replay.differences.append(Difference("digest-differs", newest, None, text))
    if not replay.differences:
        replay.differences += _stray_authors(session)
    return replay


def _stray_authors(session: Session) -> Iterator[Difference]:
    """Events that are gone are missed by themselves: this is of events that have never been."""
    for revision, sub in session.all("stray_authors"):
        which = f"event {sub} of revision {revision}" if sub else f"event {revision}"
        text = f"the log has an author of {which}, but no such event"
        yield Difference("author-unknown", revision, None, text)


def all_events(session: Session) -> Iterator[tuple[int, ObjectRow]]:
    """Yields sub-revisions and rows with the columns of `events`; the oldest comes first.

    Raises DamageError.
    """
    revision = 0
    while rows := session.all("all_events", revision=revision, limit=CHUNK_EVENTS):
        check_order(rows, revision)
        last = rows[-1][0] if len(rows) == CHUNK_EVENTS else NO_LIMIT
        further = session.all("all_siblings", revision=revision, until=last)
        first = [(0, row) for row in rows]
        yield from (
            heapq.merge(first, [(row[0], row[1:]) for row in further], key=_place) if further else first
        )
        revision = rows[-1][0]


def _place(numbered: tuple[int, ObjectRow]) -> tuple[int, int]:
    sub, row = numbered
    return row[0], sub


def _fold(rows: Iterator[tuple[int, ObjectRow]], replay: Replay) -> Iterator[Difference]:
    """Brings the objects of `replay` up to date row by row; yields the damages of events."""
    last = replay.metadata.base
    sums = _Sums(replay.metadata)
    for sub, row in rows:
        revision = row[0]
        replay.events += 1
        replay.further += sub > 0
        if not sub:
            sums.compare()
        if revision > last + 1:
            sums.known = False
            yield from _gap(last + 1, revision - 1, replay.metadata.lost)
        last = max(last, revision)
        if revision not in replay.metadata.damaged and not is_intact(row, sub):
            sums.known = False
            yield damaged_event(row)
        put(replay.objects, row)
        sums.add(row, replay.objects)
    if replay.metadata.floor > last:
        yield from _gap(last + 1, replay.metadata.floor, replay.metadata.lost)
    sums.compare()
    replay.gone = sums.gone


class _Sums:
    """Compares the digest of each revision with the objects after it, up to the first damage: the loss of an
    event that others share their revision with is seen by nothing else.
    """

    def __init__(self, metadata: Metadata) -> None:
        self.gone: Difference | None = None  # an event that was first missed
        self.known = not (metadata.lost or metadata.damaged or metadata.missing or metadata.digest_offset)
        self._base = metadata.base
        self._sums: dict[Key, int] = {}
        self._total = 0
        self._newest: ObjectRow | None = None  # of the revision that is summed up

    def add(self, row: ObjectRow, objects: Mapping[Key, Entry]) -> None:
        if not self.known:
            return
        key = Key(row[1], row[2], row[3])
        entry = objects.get(key)
        state = entry_sum(entry) if entry is not None else 0
        self._total += state - self._sums.pop(key, 0)
        if state:
            self._sums[key] = state
        self._newest = row

    def compare(self) -> None:
        """Called when all rows of a revision are added."""
        row = self._newest
        if not self.known or row is None or row[0] <= self._base or row[15] == self._total:
            return
        self.known = False
        text = f"the objects after revision {row[0]} are not those of its digest: one of its events is gone"
        self.gone = Difference("events-lost", row[0], None, text)


def put(objects: dict[Key, Entry], row: ObjectRow) -> None:
    """Applies a row of `events` as it is, damaged or not."""
    key = Key(row[1], row[2], row[3])
    if row[5] == Verb.DELETE.value:
        objects.pop(key, None)
    else:
        objects[key] = Entry(key, row[4], row[0], row[8], row[6], row[17], row[18])


def _gap(first: int, last: int, known: Sequence[Range]) -> Iterator[Difference]:
    if any(start <= first and last <= end for start, end in known):
        return
    yield Difference("events-lost", first, None, f"the log has no {_events(first, last)}")


def lost_tail(head: int, mark: int) -> Difference:
    text = f"the log ends at revision {head}, though {mark} was committed: {_events(head + 1, mark)} lost"
    return Difference("events-lost", head + 1, None, text)


def _events(first: int, last: int) -> str:
    return f"event {first}" if first == last else f"events {first} to {last}"


def damaged_event(row: ObjectRow) -> Difference:
    key = Key(str(row[1]), str(row[2]), str(row[3]))
    text = f"{key.resource} {key.path}: its event at revision {row[0]} is not what was written"
    return Difference("event-damaged", row[0], key, text)


def compare(objects: Mapping[Key, Entry], projection: Sequence[Entry]) -> list[Difference]:
    """Ordered by revision."""
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
    return sorted(differences, key=_revision_of)


def _revision_of(difference: Difference) -> int:
    """A damaged row may have anything for a revision."""
    return difference.revision if isinstance(difference.revision, int) else 0


@dataclass(slots=True)
class Repair:
    revision: int
    events: int
    objects: int
    kept: str  # place of the damaged database now
    healed: list[Difference] = field(default_factory=list)  # events put right from the table of objects
    lost: list[Difference] = field(default_factory=list)  # losses that no repair brings back


@dataclass(slots=True)
class Salvage:
    """Everything stands here that could be read of a damaged database."""

    events: dict[int, Row]
    siblings: dict[Place, Row]  # with the columns of `events`
    authors: list[Row]
    projection: Sequence[Entry]
    timeline: list[Row]
    leases: list[Row]
    metadata: Metadata


def rebuilt(salvage: Salvage, mark: int) -> tuple[Repair, dict[Key, Entry], Metadata]:
    """Applies the salvaged events; the metadata is to be written with the log."""
    before, events = salvage.metadata, salvage.events
    newest = max(events, default=EMPTY_REVISION)
    head = max(newest, before.floor, mark)
    repair = Repair(head, len(events) + len(salvage.siblings), 0, "")
    objects: dict[Key, Entry] = {}
    damaged: set[int] = set()
    projection: dict[int, list[Entry]] = {}
    for entry in salvage.projection:
        projection.setdefault(entry.revision, []).append(entry)
    for revision, sub in sorted([*((revision, 0) for revision in events), *salvage.siblings]):
        row = salvage.siblings[revision, sub] if sub else events[revision]
        if not is_intact(row, sub):
            row = _mended(row, sub, projection.get(revision, ()), repair)
            if sub:
                salvage.siblings[revision, sub] = row
            else:
                events[revision] = row
            if not is_intact(row, sub):
                damaged.add(revision)
        put(objects, row)
    total = sum(map(entry_sum, objects.values()))
    if newest in damaged and _digest_mended(events, newest, total - before.digest_offset, repair):
        damaged.discard(newest)
    repair.objects = len(objects)
    gaps = list(_gaps(events, before.base, head))
    repair.lost += [_gone(*gap) for gap in gaps if gap not in before.lost]
    repair.lost += [
        damaged_event(row)
        for revision in sorted(damaged - before.damaged)
        for row in _damaged_rows(salvage, revision)
    ]
    kept = events[newest][15] if events else 0
    # If the digest agrees, the objects are whole: only their authors and times are damaged.
    proven = newest not in damaged and total == kept + before.digest_offset
    if not proven and not repair.lost and not damaged and not before.damaged:
        text = f"events that shared a revision are gone: the digest of revision {newest} is of other objects"
        repair.lost.append(Difference("events-lost", newest, None, text))
    unreadable = set() if proven else damaged & {entry.revision for entry in objects.values()}
    metadata = Metadata(
        compacted=before.compacted,
        retained=before.retained,
        floor=head if repair.lost or head > newest else before.floor,
        lost=gaps,
        missing=head - before.base + before.retained - len(events),
        damaged=frozenset(damaged),
        unreadable=frozenset(unreadable),
        digest_offset=total - kept,
        store_id=before.store_id,
    )
    return repair, objects, metadata


def _damaged_rows(salvage: Salvage, revision: int) -> Iterator[Row]:
    if revision in salvage.events and not is_intact(salvage.events[revision]):
        yield salvage.events[revision]
    for (shared, sub), row in sorted(salvage.siblings.items(), key=lambda item: item[0]):
        if shared == revision and not is_intact(row, sub):
            yield row


def _mended(row: Row, sub: int, entries: Iterable[Entry], repair: Repair) -> Row:
    """Takes the object from the `entries` of the table of objects at its revision, if the checksum proves it;
    else the row stays as it is.
    """
    for entry in entries:
        head = (row[0], *entry.key, entry.uid, row[5], entry.value, row[7], entry.created)
        candidate = (*head, *row[9:17], entry.updates, entry.lease)
        if is_intact(candidate, sub):
            repair.healed.append(damaged_event(candidate))
            return candidate
    return row


def _digest_mended(events: dict[int, Row], newest: int, digest: int, repair: Repair) -> bool:
    """Corrects the digest of the newest event, if its checksum proves that only the digest is damaged."""
    candidate = (*events[newest][:15], digest, *events[newest][16:])
    if not is_intact(candidate):
        return False
    events[newest] = candidate
    repair.healed.append(damaged_event(candidate))
    return True


def _gaps(revisions: Iterable[int], base: int, head: int) -> Iterator[Range]:
    """Only revisions after `base` and up to `head` count."""
    last = base
    for revision in sorted(revision for revision in revisions if revision > base):
        if revision > last + 1:
            yield last + 1, revision - 1
        last = revision
    if head > last:
        yield last + 1, head


def _gone(first: int, last: int) -> Difference:
    text = f"event {first} is gone" if first == last else f"events {first} to {last} are gone"
    return Difference("events-lost", first, None, text)


def fill(session: Session, salvage: Salvage, objects: Mapping[Key, Entry], metadata: Metadata) -> None:
    """The store of `session` must be empty. Authors without their events are left out."""
    session.insert("insert_event", [salvage.events[revision] for revision in sorted(salvage.events)])
    further = [(sub, *salvage.siblings[revision, sub]) for revision, sub in sorted(salvage.siblings)]
    session.insert("insert_sibling", further)
    session.insert("put_author", [row for row in salvage.authors if _is_known_author(row, salvage)])
    session.many("put_lease", salvage.leases)
    session.insert("put_object", [entry_row(entry) for entry in objects.values()])
    session.many("record", [row[1:] for row in salvage.timeline])  # numbered again, in the same order
    for name, value in metadata.rows():
        session.run("put_meta", name=name, value=value)


def _is_known_author(row: Row, salvage: Salvage) -> bool:
    revision, sub, *texts = row
    there = (revision, sub) in salvage.siblings if sub else revision in salvage.events
    return there and all(isinstance(text, str) for text in texts)


def copy_log(source: Session, target: Session, note: ComponentEvent) -> Branch:
    """Writes the log of `source` up to the note's revision into `target`, which is empty, and the note after
    it. Raises CompactedError, FutureRevisionError, DamageError.
    """
    head = newest_of(source, note.revision)
    metadata = Metadata.read(source)
    objects: dict[Key, Entry] = {}
    count = 0
    for rows in _events_to_copy(source, note.revision):
        target.insert("insert_event", [tuple(row) for sub, row in rows if not sub])
        target.insert("insert_sibling", [(sub, *row) for sub, row in rows if sub])
        count += len(rows)
        learnt = source.all("authors", since=rows[0][1][0], until=rows[-1][1][0])
        target.insert("put_author", [tuple(row) for row in learnt])
        for _, row in rows:
            put(objects, row)
    target.many("put_lease", leases_at(source.all("leases"), note.revision))
    target.insert("put_object", [entry_row(entry) for entry in objects.values()])
    timeline = source.all("timeline", since=0, seq=0)
    target.many("record", [row[1:] for row in timeline if row[1] <= note.revision])
    kept = checked(target, [*objects.values()], metadata, note.revision)
    for name, value in replace(kept, store_id=branched_id(metadata.store_id, note)).rows():
        target.run("put_meta", name=name, value=value)
    record(target, note)
    return Branch(note.revision, count, len(objects), head)


def _events_to_copy(source: Session, until: int) -> Iterator[list[tuple[int, ObjectRow]]]:
    rows = takewhile(lambda numbered: numbered[1][0] <= until, all_events(source))
    while chunk := list(islice(rows, COPY_EVENTS)):
        yield chunk


def leases_at(rows: Iterable[Row], revision: int) -> list[Row]:
    """Gives back the leases that were granted by then and revoked later."""
    return [
        (lease, granted, ttl, revoked if revoked <= revision else 0)
        for lease, granted, ttl, revoked in rows
        if granted <= revision
    ]


def newest_of(source: Session, revision: int) -> int:
    """Raises CompactedError or FutureRevisionError if the log has no `revision`."""
    oldest, head = max(Metadata.read(source).horizon, EMPTY_REVISION), newest(source)
    if revision < oldest:
        raise CompactedError(revision, oldest)
    if revision > head:
        raise FutureRevisionError(revision, head)
    return head


def branched_id(before: str, note: ComponentEvent) -> str:
    """`before` is the id of the store that the note branches off."""
    return sha256(f"{before}\0{note.what}\0{note.revision}\0{note.time}".encode()).hexdigest()[:32]


def checked(session: Session, entries: Sequence[Entry], metadata: Metadata, revision: int) -> Metadata:
    """Completes the metadata of the branch. Raises DamageError unless the objects fit the digest of its
    newest event.

    At the revision of a compaction this event may be gone, together with its digest: deletions are forgotten
    there. Then the next revision counts on from the compaction's.


    """
    last, digest = (session.all("newest") or [(EMPTY_REVISION, 0)])[0]
    total = sum(map(entry_sum, entries))
    if last < revision:
        return replace(metadata, floor=revision, digest_offset=total - digest)
    if total != digest + metadata.digest_offset:
        raise DamageError("the log does not come to the objects in the digest of its newest event")
    return metadata

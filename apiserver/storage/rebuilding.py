"""Rebuilds a damaged store from what could be read of it: the events that are left, and what they come to.

An event whose checksum fails is put right only if the table of objects has the very bytes that were written,
which the checksum proves. What remains damaged, or is gone, is written down and never made up: the object
that such an event left cannot be read, and revisions that are gone are not given again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kubeskew.apiserver.storage.checksums import entry_sum, is_intact
from kubeskew.apiserver.storage.metadata import Metadata, Range
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Entry, Key
from kubeskew.apiserver.storage.sessions import Row, Session
from kubeskew.apiserver.storage.statements import entry_row
from kubeskew.apiserver.storage.verifying import Difference, damaged_event, put


@dataclass(slots=True)
class Repair:
    """Holds the outcome of a repair: how much there is, what the log had lost, where the old file is."""

    revision: int
    events: int
    objects: int
    kept: str  # where the damaged database is now
    healed: list[Difference] = field(default_factory=list)  # events put right from the table of objects
    lost: list[Difference] = field(default_factory=list)  # what no repair brings back


@dataclass(slots=True)
class Salvage:
    """Holds everything that could be read of a damaged database."""

    events: dict[int, Row]
    projection: dict[int, Entry]  # by revision
    timeline: list[Row]
    metadata: Metadata


def rebuilt(salvage: Salvage, mark: int) -> tuple[Repair, dict[Key, Entry], Metadata]:
    """Returns the result of the events, the repair's report, and the metadata to be written
    beside the log.
    """
    before, events = salvage.metadata, salvage.events
    newest = max(events, default=EMPTY_REVISION)
    head = max(newest, before.floor, mark)
    repair = Repair(head, len(events), 0, "")
    objects: dict[Key, Entry] = {}
    damaged: set[int] = set()
    for revision in sorted(events):
        row = events[revision]
        if not is_intact(row):
            row = events[revision] = _mended(row, salvage.projection, repair)
            if not is_intact(row):
                damaged.add(revision)
        put(objects, row)
    total = sum(map(entry_sum, objects.values()))
    if newest in damaged and _digest_mended(events, newest, total - before.digest_offset, repair):
        damaged.discard(newest)
    repair.objects = len(objects)
    gaps = list(_gaps(events, before.base, head))
    repair.lost += [_gone(*gap) for gap in gaps if gap not in before.lost]
    repair.lost += [damaged_event(events[revision]) for revision in sorted(damaged - before.damaged)]
    kept = events[newest][15] if events else 0
    # If the digest agrees, only what stands beside the objects is damaged: who wrote them, and when.
    proven = newest not in damaged and total == kept + before.digest_offset
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


def _mended(row: Row, projection: Mapping[int, Entry], repair: Repair) -> Row:
    """Returns a damaged row of `events` as it was, if the table of objects has that, else as it is."""
    entry = projection.get(row[0])
    if entry is None:
        return row
    candidate = (row[0], *entry.key, entry.uid, row[5], entry.value, row[7], entry.created, *row[9:])
    if not is_intact(candidate):
        return row
    repair.healed.append(damaged_event(candidate))
    return candidate


def _digest_mended(events: dict[int, Row], newest: int, digest: int, repair: Repair) -> bool:
    """Puts right the digest of the newest event, if its checksum proves that this alone is damaged."""
    candidate = (*events[newest][:15], digest, events[newest][16])
    if not is_intact(candidate):
        return False
    events[newest] = candidate
    repair.healed.append(damaged_event(candidate))
    return True


def _gaps(revisions: Iterable[int], base: int, head: int) -> Iterator[Range]:
    """Yields the ranges of revisions behind `base` and up to `head` that are not there."""
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
    """Writes a rebuilt store into an empty one."""
    session.insert("insert_event", [salvage.events[revision] for revision in sorted(salvage.events)])
    session.insert("put_object", [entry_row(entry) for entry in objects.values()])
    session.many("record", [row[1:] for row in salvage.timeline])  # numbered anew, in the same order
    for name, value in metadata.rows():
        session.run("put_meta", name=name, value=value)

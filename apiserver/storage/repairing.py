"""Repairs a store from its log: a new file with every event that is left, and the resulting objects.

The damaged file stays beside the new one; nothing in it is changed but that its write-ahead log is taken in.
An event whose checksum fails is put right only if the table of objects has the very bytes that were written,
which the checksum proves. What remains damaged, or is gone, is written down and never made up: the object
that such an event left cannot be read, and revisions that are gone are not given again.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kubeskew.apiserver.storage.checksums import entry_sum, is_intact
from kubeskew.apiserver.storage.failures import StorageError
from kubeskew.apiserver.storage.high_water import HighWaterMark, read
from kubeskew.apiserver.storage.metadata import Metadata, Range
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Entry, Key
from kubeskew.apiserver.storage.sessions import Row, Session
from kubeskew.apiserver.storage.sqlite import SQLiteSession, statements
from kubeskew.apiserver.storage.statements import entry_of, entry_row
from kubeskew.apiserver.storage.verifying import Difference, damaged_event, put
from kubeskew.migrations import upgrading

CHUNK_ROWS = 500


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
class _Salvage:
    """Holds everything that could be read of a damaged database."""

    events: dict[int, Row]
    projection: dict[int, Entry]  # by revision
    timeline: list[Row]
    metadata: Metadata


def repair(path: str) -> Repair:
    """Rebuilds the database at `path`, which nobody has open, from its log. Blocks. Raises StorageError."""
    if not Path(path).exists():
        raise StorageError(f"{path} is gone, and with it the log: there is nothing to repair from")
    mark = read(path)
    fresh = Path(f"{path}.repaired")
    _remove(fresh)
    try:
        with closing(_open(path)) as raw:
            upgrading.prepare(upgrading.SQLiteConnection(raw), lambda: upgrading.upgrade(path))
            salvage = _salvage(SQLiteSession(raw, statements()), mark)
            with suppress(sqlite3.Error):  # else the write-ahead log is kept as it is
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        result, objects, metadata = _rebuilt(salvage, mark)
        _write(str(fresh), salvage, objects, metadata)
        result.kept = _exchange(Path(path), fresh)
    except (sqlite3.Error, upgrading.SchemaError, OSError) as error:
        raise StorageError(f"repairing {path}: {error}") from error
    finally:
        _remove(fresh)
    with closing(HighWaterMark.open(path)) as noted:
        noted.note(result.revision)
    return result


def _open(path: str) -> sqlite3.Connection:
    raw = sqlite3.connect(path, isolation_level=None)
    raw.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
    return raw


def _salvage(session: Session, mark: int) -> _Salvage:
    """Reads what can be read, row by row where a page is broken."""
    events: dict[int, Row] = {}
    revision = 0
    while True:
        try:
            rows = session.all("all_events", revision=revision, limit=CHUNK_ROWS)
        except sqlite3.DatabaseError:
            events.update(_one_by_one(session, revision, mark))
            break
        if not rows:
            break
        events.update((row[0], row) for row in rows)
        revision = rows[-1][0]
    projection: dict[int, Entry] = {}
    with suppress(sqlite3.DatabaseError):  # the log has the objects
        projection = {entry.revision: entry for entry in map(entry_of, session.all("entries"))}
    timeline: list[Row] = []
    with suppress(sqlite3.DatabaseError):
        timeline = session.all("timeline", since=0, seq=0)
    return _Salvage(events, projection, timeline, Metadata.read(session))


def _one_by_one(session: Session, revision: int, mark: int) -> Iterator[tuple[int, Row]]:
    """Yields the events after `revision` each by itself, as far as any is found or `mark` tells of."""
    missed = 0
    while revision < mark or missed < CHUNK_ROWS:
        revision += 1
        missed += 1
        with suppress(sqlite3.DatabaseError):
            for row in session.all("one_event", revision=revision):
                missed = 0
                yield revision, row


def _rebuilt(salvage: _Salvage, mark: int) -> tuple[Repair, dict[Key, Entry], Metadata]:
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


def _write(
    path: str,
    salvage: _Salvage,
    objects: Mapping[Key, Entry],
    metadata: Metadata,
) -> None:
    """Makes the new database; it is whole and on the disk when this returns."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        Path(path).chmod(0o600)
        raw.execute("PRAGMA synchronous=FULL")
        upgrading.prepare(upgrading.SQLiteConnection(raw), lambda: None)
        session = SQLiteSession(raw, statements())
        raw.execute("BEGIN IMMEDIATE")
        session.insert("insert_event", [salvage.events[revision] for revision in sorted(salvage.events)])
        session.insert("put_object", [entry_row(entry) for entry in objects.values()])
        session.many("insert_timeline", salvage.timeline)
        for name, value in metadata.rows():
            session.run("put_meta", name=name, value=value)
        raw.execute("COMMIT")


def _exchange(path: Path, fresh: Path) -> str:
    """Puts the new file in the place of the old one, and returns where that is now."""
    number = 1
    while (kept := Path(f"{path}.damaged-{number}")).exists():
        number += 1
    kept.hardlink_to(path)
    with suppress(FileNotFoundError):  # left where SQLite could not take it in: the new file must not
        Path(f"{path}-wal").rename(f"{kept}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    return str(kept)


def _remove(fresh: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)

"""Repairs a store from its log: a new file with every event that is left, and the resulting objects.

The damaged file stays beside the new one; nothing in it is changed but that its write-ahead log is taken in.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

from kubeskew.apimachinery.durable_files import damaged_beside, flush
from kubeskew.apiserver.storage.failures import StorageError
from kubeskew.apiserver.storage.metadata import Metadata
from kubeskew.apiserver.storage.rebuilding import Repair, Salvage, fill, rebuilt
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.storage.sessions import Row, Session
from kubeskew.apiserver.storage.sqlite.database import SQLiteSession, statements
from kubeskew.apiserver.storage.sqlite.high_water import HighWaterMark, read
from kubeskew.apiserver.storage.statements import entry_of
from kubeskew.migrations import upgrading

CHUNK_ROWS = 500


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
        result, objects, metadata = rebuilt(salvage, mark)
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


def _salvage(session: Session, mark: int) -> Salvage:
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
    return Salvage(events, projection, timeline, Metadata.read(session))


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


def _write(
    path: str,
    salvage: Salvage,
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
        fill(session, salvage, objects, metadata)
        raw.execute("COMMIT")


def _exchange(path: Path, fresh: Path) -> str:
    """Puts the new file in the place of the old one, and returns where that is now."""
    kept = damaged_beside(path)
    kept.hardlink_to(path)
    with suppress(FileNotFoundError):  # left where SQLite could not take it in: the new file must not
        Path(f"{path}-wal").rename(f"{kept}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)
    fresh.replace(path)
    flush(path.parent)
    return str(kept)


def _remove(fresh: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)

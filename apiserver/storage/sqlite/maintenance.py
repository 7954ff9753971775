"""Branches and repairs of a log in SQLite, each written into a new database.

The source may be written meanwhile: it is read on one snapshot, and nothing in it changes. Its result is
compared with the digest of the newest event, so that a branch never begins with objects that the log did not
leave.

The damaged file stays next to the new one; nothing in it is changed but that its write-ahead log is taken in.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sqlalchemy import ClauseElement, MetaData, Table, delete, func, insert, select
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from kubeskew.apimachinery.durable_files import damaged_path, flush
from kubeskew.apiserver.storage.integrity import (
    Repair,
    Salvage,
    branched_id,
    checked,
    fill,
    leases_at,
    newest_of,
    put,
    rebuilt,
)
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.operations import NO_LIMIT, Metadata, newest, record
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Branch, ComponentEvent, Entry, Key, Verb
from kubeskew.apiserver.storage.sqlite.database import (
    SUFFIX,
    HighWaterMark,
    SQLiteSession,
    quoted,
    read,
    statements,
)
from kubeskew.apiserver.storage.statements import Row, Session, component_event_of, entry_of, entry_row
from kubeskew.migrations import upgrade
from kubeskew.migrations.tables import authors, events, leases, meta, objects, siblings, timeline

_SOURCE = "source"  # the schema under which the source is attached
CHUNK_ROWS = 500


def branch(source: str, target: str, note: ComponentEvent) -> Branch:
    """Writes the log of the database `source` up to the note's revision into the new file `target`. Blocks.

    `note` is put after it on the time line. Raises CompactedError, FutureRevisionError, StorageError; then
    there is no target.
    """
    remove(target)
    try:
        with closing(_opened(source, "mode=ro")) as origin, closing(_opened(target, "mode=rwc")) as raw:
            Path(target).chmod(0o600)
            upgrade.check(upgrade.SQLiteConnection(origin))
            head = newest_of(_session(origin), note.revision)
            _fill(raw, origin, source, note.revision, head)
            result = _finished(raw, note, head)
        flush(Path(target))
        flush(Path(target).parent)  # the mark must not be there without it
        with closing(HighWaterMark.open(target)) as mark:
            mark.note(result.revision)
    except (sqlite3.Error, upgrade.SchemaError, OSError) as error:
        remove(target)
        raise StorageError(f"branching {source}: {error}") from error
    except BaseException:
        remove(target)
        raise
    return result


def remove(target: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm", SUFFIX):
        Path(f"{target}{suffix}").unlink(missing_ok=True)


def _opened(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quoted(path)}?{mode}", uri=True, isolation_level=None)


def _sql(statement: ClauseElement) -> str:
    return str(statement.compile(dialect=SQLiteDialect(), compile_kwargs={"literal_binds": True}))


def _session(raw: sqlite3.Connection) -> Session:
    return SQLiteSession(raw, statements())


def _fill(raw: sqlite3.Connection, origin: sqlite3.Connection, source: str, revision: int, head: int) -> None:
    """Copies all rows up to `revision`: the source's pages without newer rows, or the rows one by one, by the
    number of either.
    """
    raw.execute("PRAGMA cache_size=-200000")
    raw.execute("PRAGMA synchronous=OFF")  # it is flushed once, at the end
    if (revision - EMPTY_REVISION) * 3 > (head - EMPTY_REVISION) * 2:
        origin.backup(raw)
        raw.execute("PRAGMA journal_mode=OFF")  # an unfinished file is deleted
        raw.execute("BEGIN")
        for table in (events, siblings, authors, timeline):
            raw.execute(_sql(delete(table).where(table.c.revision > revision)))
        raw.execute(_sql(delete(objects)))
        return
    raw.execute("PRAGMA journal_mode=OFF")
    upgrade.prepare(upgrade.SQLiteConnection(raw), lambda: None)
    raw.execute(f"ATTACH DATABASE ? AS {_SOURCE}", (f"file:{quoted(source)}?mode=ro",))
    raw.execute("BEGIN")
    _copy(raw, meta)
    _copy(raw, leases)
    _copy(raw, events, revision)
    _copy(raw, siblings, revision)
    _copy(raw, authors, revision)
    _copy(raw, timeline, revision)


def _finished(raw: sqlite3.Connection, note: ComponentEvent, head: int) -> Branch:
    """Adds the table of objects, the metadata and the note, and ends the transaction."""
    session = _session(raw)
    metadata = Metadata.read(session)
    entries = _project(raw, session)
    kept = checked(session, entries, metadata, note.revision)
    rows = leases_at(session.all("leases"), note.revision)
    raw.execute(_sql(delete(leases)))
    session.many("put_lease", rows)
    raw.execute(_sql(delete(meta)))
    for name, value in replace(kept, store_id=branched_id(metadata.store_id, note)).rows():
        session.run("put_meta", name=name, value=value)
    record(session, note)
    count = session.all("count")[0][0] + session.all("count_siblings")[0][0]
    raw.execute("COMMIT")
    return Branch(note.revision, count, len(entries), head)


def _copy(raw: sqlite3.Connection, table: Table, until: int | None = None) -> None:
    """Copies the rows of a table; those with a revision only if they are not newer than `until`."""
    source = table.to_metadata(MetaData(), schema=_SOURCE)
    rows = select(source)
    if until is not None:
        rows = rows.where(source.c.revision <= until).order_by(source.c.revision)
    raw.execute(_sql(insert(table).from_select([*table.c], rows)))


def _project(raw: sqlite3.Connection, session: Session) -> Sequence[Entry]:
    of_events = [events.c[column.name] for column in objects.c]
    latest = select(func.max(events.c.revision)).group_by(
        events.c.resource, events.c.namespace, events.c.name
    )
    there = events.c.revision.in_(latest) & (events.c.verb != Verb.DELETE.value)
    raw.execute(_sql(insert(objects).from_select([*objects.c], select(*of_events).where(there))))
    _project_siblings(session)
    return [entry_of(row) for row in session.all("entries")]


def _project_siblings(session: Session) -> None:
    """Puts what siblings left in the place of what is older."""
    newest = {tuple(row[2:5]): row for row in session.all("siblings_at_all", revision=NO_LIMIT)}
    if not newest:
        return
    for *key, revision in session.all("latest_all", revision=NO_LIMIT):
        if tuple(key) in newest and newest[tuple(key)][1] < revision:
            del newest[tuple(key)]
    session.many("remove_object", [*newest])
    left: dict[Key, Entry] = {}
    for row in newest.values():
        put(left, row[1:])
    session.insert("put_object", [entry_row(entry) for entry in left.values()])


@contextmanager
def receiving(target: str) -> Iterator[Session]:
    """Opens a transaction on an empty store in the new file `target`, which is on the disk afterwards.

    Blocks. If the block raises, there is no target. Raises StorageError.


    """
    remove(target)
    try:
        with closing(_opened(target, "mode=rwc")) as raw:
            Path(target).chmod(0o600)
            upgrade.prepare(upgrade.SQLiteConnection(raw), lambda: None)
            raw.execute("BEGIN")
            session = _session(raw)
            yield session
            revision = newest(session)
            raw.execute("COMMIT")
        flush(Path(target))
        flush(Path(target).parent)  # the mark must not be there without it
        with closing(HighWaterMark.open(target)) as mark:
            mark.note(revision)
    except (sqlite3.Error, OSError) as error:
        remove(target)
        raise StorageError(f"writing {target}: {error}") from error
    except BaseException:
        remove(target)
        raise


def repair(path: str) -> Repair:
    """Rebuilds the database at `path`, which no process has open, from its log. Blocks. Raises
    StorageError.
    """
    if not Path(path).exists():
        raise StorageError(f"{path} is gone, and with it the log: there is nothing to repair from")
    mark = read(path)
    fresh = Path(f"{path}.repaired")
    _remove(fresh)
    try:
        with closing(_open(path)) as raw:
            upgrade.prepare(upgrade.SQLiteConnection(raw), lambda: upgrade.upgrade(path))
            salvage = _salvage(SQLiteSession(raw, statements()), mark)
            with suppress(sqlite3.Error):  # else the write-ahead log is kept as it is
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        result, objects, metadata = rebuilt(salvage, mark)
        _write(str(fresh), salvage, objects, metadata)
        result.kept = _exchange(Path(path), fresh)
    except (sqlite3.Error, upgrade.SchemaError, OSError) as error:
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
    """Reads row by row where a page is broken."""
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
        if rows[-1][0] <= revision:  # a damaged page leads in circles
            events.update(_one_by_one(session, revision, mark))
            break
        events.update((row[0], row) for row in rows)
        revision = rows[-1][0]
    further = _further(session, events)
    projection: list[Entry] = []
    with suppress(sqlite3.DatabaseError):  # the log has the objects
        projection = [entry_of(row) for row in session.all("entries")]
    timeline: list[Row] = []
    with suppress(sqlite3.DatabaseError):
        timeline = [row for row in session.all("timeline", since=0, seq=0) if _is_readable(row)]
    learnt: list[Row] = []
    with suppress(sqlite3.DatabaseError):
        learnt = session.all("authors", since=0, until=NO_LIMIT)
    leases: list[Row] = []
    with suppress(sqlite3.DatabaseError):
        leases = [row for row in session.all("leases") if None not in row]
    siblings = {(row[1], row[0]): row[1:] for row in further}
    return Salvage(events, siblings, learnt, projection, timeline, leases, Metadata.read(session))


def _is_readable(row: Row) -> bool:
    try:
        component_event_of(row)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _further(session: Session, events: Mapping[int, Row]) -> list[Row]:
    """Reads the further events of all revisions, or of those that can be read."""
    with suppress(sqlite3.DatabaseError):
        return session.all("all_siblings", revision=0, until=NO_LIMIT)
    found: list[Row] = []
    for revision in sorted(events):
        with suppress(sqlite3.DatabaseError):
            found += session.all("all_siblings", revision=revision - 1, until=revision)
    return found


def _one_by_one(session: Session, revision: int, mark: int) -> Iterator[tuple[int, Row]]:
    """Reads the events after `revision` each by itself, up to `mark` and on until CHUNK_ROWS in a row are
    missing.
    """
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
    """Creates the new database; it is whole and on the disk when this returns."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        Path(path).chmod(0o600)
        raw.execute("PRAGMA synchronous=FULL")
        upgrade.prepare(upgrade.SQLiteConnection(raw), lambda: None)
        session = SQLiteSession(raw, statements())
        raw.execute("BEGIN IMMEDIATE")
        fill(session, salvage, objects, metadata)
        raw.execute("COMMIT")


def _exchange(path: Path, fresh: Path) -> str:
    """Puts the new file in the place of the old one, and returns the new path of the old one."""
    kept = damaged_path(path)
    kept.hardlink_to(path)
    with suppress(
        FileNotFoundError
    ):  # it is left if SQLite could not merge it: it must not belong to the new file
        Path(f"{path}-wal").rename(f"{kept}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)
    fresh.replace(path)
    flush(path.parent)
    return str(kept)


def _remove(fresh: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)

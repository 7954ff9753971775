"""Writes the log as it was at a revision into a database of its own, for a fork or to go back there.

The source may be written meanwhile: it is read on one snapshot, and nothing in it changes. What it comes to
is held against the digest that the newest event carries, so that a branch never begins with objects that the
log did not leave.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from sqlalchemy import ClauseElement, MetaData, Table, delete, func, insert, select
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from kubeskew.apimachinery.durable_files import flush
from kubeskew.apiserver.storage.copying import branched_id, checked, newest_of
from kubeskew.apiserver.storage.failures import StorageError
from kubeskew.apiserver.storage.metadata import Metadata
from kubeskew.apiserver.storage.operations import newest, record
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Branch, ComponentEvent, Entry, Verb
from kubeskew.apiserver.storage.sessions import Session
from kubeskew.apiserver.storage.sqlite.database import SQLiteSession, quoted, statements
from kubeskew.apiserver.storage.sqlite.high_water import SUFFIX, HighWaterMark
from kubeskew.apiserver.storage.statements import entry_of
from kubeskew.migrations import upgrading
from kubeskew.migrations.tables import events, meta, objects, timeline

_SOURCE = "source"  # the schema under which the source is attached


def branch(source: str, target: str, note: ComponentEvent) -> Branch:
    """Writes the log of the database `source` up to the note's revision into the new file `target`. Blocks.

    `note` is put behind it on the time line. Raises CompactedError, FutureRevisionError, StorageError; then
    there is no target.
    """
    remove(target)
    try:
        with closing(_opened(source, "mode=ro")) as origin, closing(_opened(target, "mode=rwc")) as raw:
            Path(target).chmod(0o600)
            upgrading.check(upgrading.SQLiteConnection(origin))
            head = newest_of(_session(origin), note.revision)
            _fill(raw, origin, source, note.revision, head)
            result = _finished(raw, note, head)
        flush(Path(target))
        with closing(HighWaterMark.open(target)) as mark:
            mark.note(result.revision)
    except (sqlite3.Error, upgrading.SchemaError, OSError) as error:
        remove(target)
        raise StorageError(f"branching {source}: {error}") from error
    except BaseException:
        remove(target)
        raise
    return result


def remove(target: str) -> None:
    """Removes what a branch that was not finished has left."""
    for suffix in ("", "-journal", "-wal", "-shm", SUFFIX):
        Path(f"{target}{suffix}").unlink(missing_ok=True)


def _opened(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quoted(path)}?{mode}", uri=True, isolation_level=None)


def _sql(statement: ClauseElement) -> str:
    """Returns a statement as text, with its values in it."""
    return str(statement.compile(dialect=SQLiteDialect(), compile_kwargs={"literal_binds": True}))


def _session(raw: sqlite3.Connection) -> Session:
    return SQLiteSession(raw, statements())


def _fill(raw: sqlite3.Connection, origin: sqlite3.Connection, source: str, revision: int, head: int) -> None:
    """Gives the target every row up to `revision`: the source's pages without what is newer, or the rows one
    by one, whichever is less work.
    """
    raw.execute("PRAGMA cache_size=-200000")
    raw.execute("PRAGMA synchronous=OFF")  # it is flushed once, at the end
    if (revision - EMPTY_REVISION) * 3 > (head - EMPTY_REVISION) * 2:
        origin.backup(raw)
        raw.execute("PRAGMA journal_mode=OFF")  # what is not finished is thrown away
        raw.execute("BEGIN")
        for table in (events, timeline):
            raw.execute(_sql(delete(table).where(table.c.revision > revision)))
        raw.execute(_sql(delete(objects)))
        return
    raw.execute("PRAGMA journal_mode=OFF")
    upgrading.prepare(upgrading.SQLiteConnection(raw), lambda: None)
    raw.execute(f"ATTACH DATABASE ? AS {_SOURCE}", (f"file:{quoted(source)}?mode=ro",))
    raw.execute("BEGIN")
    _copy(raw, meta)
    _copy(raw, events, revision)
    _copy(raw, timeline, revision)


def _finished(raw: sqlite3.Connection, note: ComponentEvent, head: int) -> Branch:
    """Adds the table of objects, the metadata and the note, and ends the transaction."""
    session = _session(raw)
    metadata = Metadata.read(session)
    entries = _project(raw, session)
    kept = checked(session, entries, metadata, note.revision)
    raw.execute(_sql(delete(meta)))
    for name, value in replace(kept, store_id=branched_id(metadata.store_id, note)).rows():
        session.run("put_meta", name=name, value=value)
    record(session, note)
    count = session.all("count")[0][0]
    raw.execute("COMMIT")
    return Branch(note.revision, count, len(entries), head)


def _copy(raw: sqlite3.Connection, table: Table, until: int | None = None) -> None:
    """Copies the rows of a table, of those with a revision the ones not newer than `until`."""
    source = table.to_metadata(MetaData(), schema=_SOURCE)
    rows = select(source)
    if until is not None:
        rows = rows.where(source.c.revision <= until).order_by(source.c.revision)
    raw.execute(_sql(insert(table).from_select([*table.c], rows)))


def _project(raw: sqlite3.Connection, session: Session) -> Sequence[Entry]:
    """Fills the table of objects from the events, and returns it."""
    of_events = [events.c[column.name] for column in objects.c]
    latest = select(func.max(events.c.revision)).group_by(
        events.c.resource, events.c.namespace, events.c.name
    )
    there = events.c.revision.in_(latest) & (events.c.verb != Verb.DELETE.value)
    raw.execute(_sql(insert(objects).from_select([*objects.c], select(*of_events).where(there))))
    return [entry_of(row) for row in session.all("entries")]


@contextmanager
def receiving(target: str) -> Iterator[Session]:
    """Yields a transaction on an empty store in the new file `target`, which is on the disk afterwards.

    Blocks. Without an end that is none, there is no target. Raises StorageError.
    """
    remove(target)
    try:
        with closing(_opened(target, "mode=rwc")) as raw:
            Path(target).chmod(0o600)
            upgrading.prepare(upgrading.SQLiteConnection(raw), lambda: None)
            raw.execute("BEGIN")
            session = _session(raw)
            yield session
            revision = newest(session)
            raw.execute("COMMIT")
        flush(Path(target))
        with closing(HighWaterMark.open(target)) as mark:
            mark.note(revision)
    except (sqlite3.Error, OSError) as error:
        remove(target)
        raise StorageError(f"writing {target}: {error}") from error
    except BaseException:
        remove(target)
        raise

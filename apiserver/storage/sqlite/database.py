"""SQLite databases: transactions in one hop to the database's thread, guarded files, and the high-water mark.

SQLite forgets transactions silently when its write-ahead log is cut or lost, together with all traces of them
in the database. So the newest committed revision stands outside too. It is written after each commit and
before any client learns of that commit, so it never runs ahead of the log; nor does it need to be synced: it
outlives the process in the kernel's cache. It may lag by what a process had committed when it was killed, and
by the last half minute or so when the power goes.

Several servers share one file. It has many slots, a revision goes to the slot of its number, and the highest
one counts: nobody takes back what another has noted, and a write that is cut off spoils one slot alone.

Who removes or replaces an open file is not noticed by SQLite: it goes on writing to what nobody will ever
read again. So both files are looked up by their names before and after every transaction, which costs two
microseconds each; once one is missed, nothing is written any more.

SQLAlchemy's asyncio adapter crosses to aiosqlite's thread and back three or four times per statement, which
costs more than the statements (3 ms instead of 1 for a transaction of 16 writes), and its import brings the
whole ORM. So a transaction is one function that runs on the thread of an aiosqlite connection, over the SQL
that SQLAlchemy compiled.

On a quick disk even that hop costs more than the `fsync` for which it is made: waking the thread, and handing
it the interpreter after each statement. So brief transactions run on the caller's thread; on a slow disk, or
while another process writes, they hop.
"""

import asyncio
import functools
import os
import sqlite3
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar
from zlib import crc32

import aiosqlite
from sqlalchemy import bindparam, func, make_url
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from kubeskew.apimachinery.clock import Clock, stopwatch
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.statements import Dialect, Row, Session, Statement, compile_all
from kubeskew.migrations import upgrade

SLOTS = 64
SUFFIX = "-mark"
_SLOT = struct.Struct(">QI")
_Identity = tuple[int, int]  # device and inode
_NO_FILE: _Identity = 0, 0
CLOSED = "the store is closed"
_FAILURES = (sqlite3.Error, ValueError, OverflowError)  # of statements
T = TypeVar("T")

_CHECK = "PRAGMA integrity_check(20)"
BUSY_SECONDS = 10.0  # how long a writer waits for another process's transactions
TAIL_SECONDS = 0.02  # how often to look for other servers' writes
ROWS_MAX = 32  # of one insert; sqlite3 keeps 128 prepared statements, and each number of rows is one
# On average; if transactions on the caller's thread take longer, the next ones hop.
BRIEF_SECONDS = 0.01
HOPPING_TRANSACTIONS = 200  # so many
# One in so many hops in any case: the thread's connection is the one that takes in the write-ahead log.
BRIEF_TRANSACTIONS = 32
READERS = 2  # connections, each with a thread, that read while the writer writes
# A checkpoint, run by the commit that crosses this, copies each changed page once however often it changed.
CHECKPOINT_PAGES = 4000
PRAGMAS = (
    "PRAGMA synchronous=FULL",
    f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-8000",
)


class HighWaterMark:
    """Holds the mark of a database open; nothing can be noted after `close`."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._noted = _highest(os.pread(file, SLOTS * _SLOT.size, 0))

    @classmethod
    def open(cls, database: str) -> Self:
        """Creates the mark if there is none. Raises OSError."""
        return cls(os.open(mark_of(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    @property
    def revision(self) -> int:
        """This process has noted no higher revision, and found none when it opened the mark."""
        return self._noted

    def note(self, revision: int) -> None:
        """Raises OSError."""
        if revision > self._noted:
            os.pwrite(self._file, _slot(revision), revision % SLOTS * _SLOT.size)
            self._noted = revision

    def close(self) -> None:
        """Closes the file; idempotent."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def mark_of(database: str) -> Path:
    return Path(f"{database}{SUFFIX}")


def read(database: str) -> int:
    """It is 0 if there is no mark."""
    try:
        return _highest(mark_of(database).read_bytes())
    except FileNotFoundError:
        return 0


def _slot(revision: int) -> bytes:
    return _SLOT.pack(revision, crc32(b"%d" % revision))


def _highest(data: bytes) -> int:
    slots = _SLOT.iter_unpack(data[: len(data) // _SLOT.size * _SLOT.size])
    return max((revision for revision, checksum in slots if _is_whole(revision, checksum)), default=0)


def _is_whole(revision: int, checksum: int) -> bool:
    return revision > 0 and crc32(b"%d" % revision) == checksum


class FileGuard:
    """Guards the files of the database at `path`; `:memory:` has none."""

    def __init__(self, path: str) -> None:
        self._path = "" if path == ":memory:" else path
        self._mark: HighWaterMark | None = None
        self._files: dict[str, _Identity] = {}  # looked at twice a transaction
        self._missed = ""  # the file that was first found missing

    def check_there(self) -> None:
        """Raises DamageError if there has been a database, and there is none now."""
        if self._path and not Path(self._path).exists() and (mark := read(self._path)):
            damage = f"{self._path} is gone, though revision {mark} was committed to it"
            raise DamageError(damage, "Put it back, or remove the cluster with `kubeskew down --purge`")

    def start(self) -> None:
        """Remembers the files of the open database. Raises OSError."""
        if not self._path:
            return
        self._mark = HighWaterMark.open(self._path)
        for file in (self._path, f"{self._path}-wal"):
            self._files[file] = identity(file)

    def gone(self) -> bool:
        """True once a file of the database is not the one any more that was opened."""
        if not self._missed:
            for file, known in self._files.items():
                if identity(file) != known:
                    self._missed = file
                    break
        return bool(self._missed)

    def check(self) -> None:
        """Raises StorageError if a file is gone."""
        if self.gone():
            raise StorageError(
                f"{self._missed} was removed or replaced while the server ran: nothing is written any more"
            )

    def note(self, revision: int) -> None:
        """A mark that cannot be written is no failure of the commit."""
        if self._mark is not None:
            with suppress(OSError):
                self._mark.note(revision)

    def close(self) -> None:
        """Closes the mark; idempotent."""
        if self._mark is not None:
            self._mark.close()


def identity(file: str) -> _Identity:
    """Device and inode differ from those of another file of the name; zeros if there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116 - a path's own method takes three times as long
    except FileNotFoundError:
        return _NO_FILE
    return status.st_dev, status.st_ino


class OneHopConnection(aiosqlite.Connection):
    """Runs whole functions on the thread that aiosqlite gives a connection.

    Two of its private attributes are used: it offers no public way to hand its thread a function, nor one to
    make that thread a daemon.

    """

    def __init__(self, raw: sqlite3.Connection) -> None:
        super().__init__(lambda: raw, iter_chunk_size=64)
        self._raw = raw
        self._thread.daemon = True  # a forgotten connection must not hang the exit

    @classmethod
    async def open(cls, connect: Callable[[], sqlite3.Connection]) -> Self:
        """Connects, in another thread, and starts the connection's own; raises what `connect` raises."""
        connection = cls(await asyncio.to_thread(connect))
        await connection
        return connection

    async def hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(work, self._raw)  # type: ignore[no-untyped-call]
        return result


class Readers:
    """Opens connections for reading as they are needed, at most `most`; then callers wait for a free one."""

    def __init__(self, connect: Callable[[], Awaitable[OneHopConnection]], most: int) -> None:
        self._connect = connect
        self._free = asyncio.Semaphore(most)
        self._idle: list[OneHopConnection] = []
        self._all: list[OneHopConnection] = []
        self._closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[OneHopConnection]:
        """Lends a connection for one transaction. Work that a cancelled reader has left on it is finished
        first. Raises StorageError once they are closed, also for a connection that is being opened then.
        """
        async with self._free:
            if not self._idle:
                self._all.append(await self._connect())
                self._idle.append(self._all[-1])
            if self._closed:
                await self.close()
                raise StorageError(CLOSED)
            connection = self._idle.pop()
            try:
                yield connection
            finally:
                self._idle.append(connection)

    async def close(self) -> None:
        """Closes every connection, also if it is cancelled meanwhile."""
        self._closed = True
        while self._all:
            connection = self._all.pop()
            try:
                await connection.close()
            except asyncio.CancelledError:
                await self.close()
                raise


def _dialect() -> Dialect:
    keys = func.json_each(bindparam("keys")).table_valued("key", "value").alias("asked")
    parts = [func.json_extract(keys.c.value, f"$[{place}]") for place in range(3)]
    return Dialect(SQLiteDialect(paramstyle="qmark"), insert, keys, keys.c.key, parts)


@functools.cache
def statements() -> dict[str, Statement]:
    """Compiling takes 5 ms, and readers of a log open it often: the statements are cached."""
    return compile_all(_dialect())


class SQLiteSession:
    """Implements `statements.Session` over a connection of sqlite3, on its thread."""

    def __init__(self, connection: sqlite3.Connection, statements: Mapping[str, Statement]) -> None:
        self._connection = connection
        self._statements = statements

    def all(self, name: str, /, **values: object) -> list[Any]:
        statement = self._statements[name]
        return self._connection.execute(statement.sql, statement.bind(values)).fetchall()

    def many(self, name: str, rows: Sequence[Row]) -> None:
        self._connection.executemany(self._statements[name].sql, rows)

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """`rows` have their values in the order of the statement's placeholders.

        Many are inserted in one step: after each step the thread has to get the interpreter back, which
        others want too.
        """
        statement = self._statements[name]
        for start in range(0, len(rows), ROWS_MAX):
            some = rows[start : start + ROWS_MAX]
            self._connection.execute(statement.inserting(len(some)), tuple(chain.from_iterable(some)))

    def run(self, name: str, /, **values: object) -> int:
        statement = self._statements[name]
        return self._connection.execute(statement.sql, statement.bind(values)).rowcount


class SQLiteDatabase:
    """Implements `statements.Database`: one connection that writes, some that read, one statement to peek."""

    def __init__(self, path: str, *, read_only: bool) -> None:
        self.path = path
        self.shared = self.path != ":memory:"
        self._read_only = read_only
        self._guard = FileGuard(":memory:" if read_only else path)
        self._statements = statements()
        self._writer: OneHopConnection | None = None
        self._readers = Readers(self._connect, READERS)
        self._peek: sqlite3.Connection | None = None  # of the caller's thread; waits for no other
        self._hops = 0  # brief transactions before the next one that may run on it
        self._brief = 0  # transactions that have run on it since the last hop
        self._average = 0.0  # seconds that they take, of late
        self._file = _NO_FILE  # the database's file, if it is only read

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Opens the database of `url` (`sqlite+aiosqlite:///FILE`) and gives it the newest schema.

        Nothing is written while a file is missed. Raises StorageError; DamageError if there was a database
        that is gone.
        """
        database = cls(path_of(url), read_only=read_only)
        try:
            await database._start()
        except BaseException as error:
            await database.close()
            if isinstance(error, StorageError):
                raise
            if _is_malformed(error):
                raise DamageError(f"opening {database.path}: {error}") from error
            if isinstance(error, (sqlite3.Error, SQLAlchemyError, upgrade.SchemaError, OSError)):
                raise StorageError(f"opening {database.path}: {error}") from error
            raise
        return database

    async def _start(self) -> None:
        self._guard.check_there()
        self._writer = await self._connect()
        if self._read_only:
            self._file = identity(self.path)
            await self._writer.hop(lambda raw: upgrade.check(upgrade.SQLiteConnection(raw)))
        else:
            migrate = self._migrate
            await self._writer.hop(lambda raw: upgrade.prepare(upgrade.SQLiteConnection(raw), migrate))
        if self.shared:
            self._peek = self._open_raw(0.0)
            self._peek.execute("PRAGMA wal_autocheckpoint=0")
            self._peek.execute(self._statements["revision"].sql).fetchone()  # which opens every file
        self._guard.start()

    def _migrate(self) -> None:
        upgrade.upgrade(self.path)

    async def _connect(self) -> OneHopConnection:
        return await OneHopConnection.open(lambda: self._open_raw(BUSY_SECONDS))

    def _open_raw(self, timeout: float) -> sqlite3.Connection:
        """Autocommit is on: transactions are begun and ended by their own statements."""
        name = f"file:{quoted(self.path)}?mode=ro" if self._read_only else self.path
        raw = sqlite3.connect(
            name, timeout=timeout, isolation_level=None, check_same_thread=False, uri=self._read_only
        )
        try:
            self._configure(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    def _configure(self, raw: sqlite3.Connection) -> None:
        if self._read_only:  # damaged texts are to be shown
            raw.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            return
        if raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raw.execute("PRAGMA journal_mode=WAL")
        for pragma in PRAGMAS:
            raw.execute(pragma)

    @property
    def place(self) -> str:
        return self.path

    @property
    def there(self) -> bool:
        if self._read_only:
            return identity(self.path) == self._file
        return not self._guard.gone()

    async def newest(self) -> int | None:
        """Reads on the calling thread, without a turn of the loop: a reader in WAL mode waits for no
        writer.
        """
        if self._peek is None:
            return None
        try:
            row = self._peek.execute(self._statements["revision"].sql).fetchone()
        except sqlite3.Error:
            return None
        return row[0] if row else None

    def committed(self) -> int:
        return read(self.path) if self.shared else 0

    def note(self, revision: int) -> None:
        self._guard.note(revision)

    async def wait_for_others(self, clock: Clock) -> None:
        await clock.sleep(TAIL_SECONDS)

    async def size(self) -> int:
        """Counts what is not yet taken in of the write-ahead log, too; a database in memory as empty."""
        files = [Path(self.path), Path(f"{self.path}-wal")] if self.shared else []
        return sum([(await asyncio.to_thread(file.stat)).st_size for file in files])

    async def damages(self) -> Sequence[str]:
        """Reads every page, and compares indexes with their tables."""
        if self._writer is None:
            raise StorageError(CLOSED)
        try:
            rows = await self._writer.hop(lambda raw: raw.execute(_CHECK).fetchall())
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return [f"the database itself: {text}" for (text,) in rows if text != "ok"]

    async def write(self, work: Callable[[Session], T]) -> T:
        if self._writer is None:
            raise StorageError(CLOSED)
        self._guard.check()
        result = await self._transact(self._writer, "BEGIN IMMEDIATE", work)
        self._guard.check()  # writes into a file that is gone are lost
        return result

    async def write_briefly(self, work: Callable[[Session], T]) -> T:
        if self._peek is None or self._hops or self._brief >= BRIEF_TRANSACTIONS:
            self._brief = 0
            self._hops = max(0, self._hops - 1)
            return await self.write(work)
        self._guard.check()
        seconds = stopwatch()
        try:
            self._peek.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:  # another connection writes; if it is something else, the hop fails, too
            return await self.write(work)
        try:
            result = _transaction(self._peek, self._statements, work)
        except _FAILURES as error:
            raise self._failure(error) from error
        self._guard.check()
        self._brief += 1
        self._average += (seconds() - self._average) / 8
        if self._average > BRIEF_SECONDS:
            self._hops, self._average = HOPPING_TRANSACTIONS, 0.0
        return result

    async def read(self, work: Callable[[Session], T]) -> T:
        if self._writer is None:
            raise StorageError(CLOSED)
        if not self.shared:  # a database in memory belongs to its connection
            return await self._transact(self._writer, "BEGIN", work)
        try:
            async with self._readers.one() as connection:
                return await self._transact(connection, "BEGIN", work)
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error

    async def _transact(self, connection: OneHopConnection, begin: str, work: Callable[[Session], T]) -> T:
        statements = self._statements
        try:
            return await connection.hop(lambda raw: _begun(raw, begin, statements, work))
        except _FAILURES as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StorageError:
        kind = DamageError if _is_malformed(error) else StorageError
        failure = kind(f"{self.path}: {error}")
        failure.refused = type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError)
        return failure

    async def close(self) -> None:
        """Closes every connection and the files, also if it is cancelled meanwhile; idempotent."""
        writer, self._writer = self._writer, None
        if self._peek is not None:
            self._peek.close()
            self._peek = None
        try:
            if writer is not None:
                await writer.close()
        finally:
            try:
                await self._readers.close()
            finally:
                self._guard.close()


def _begun(
    raw: sqlite3.Connection, begin: str, statements: Mapping[str, Statement], work: Callable[[Session], T]
) -> T:
    raw.execute(begin)
    return _transaction(raw, statements, work)


def _transaction(
    raw: sqlite3.Connection, statements: Mapping[str, Statement], work: Callable[[Session], T]
) -> T:
    """The transaction has begun."""
    try:
        result = work(SQLiteSession(raw, statements))
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:  # some failures (disk full) have rolled back already
            raw.execute("ROLLBACK")
        raise
    return result


def _is_malformed(error: BaseException) -> bool:
    """True if SQLite cannot read its file, or a text in it."""
    undecodable = isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)
    return undecodable or type(error) is sqlite3.DatabaseError


def path_of(url: str) -> str:
    """`:memory:` if the URL names no file. Raises StorageError."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StorageError(str(error)) from error
    return parsed.database or ":memory:"


def quoted(path: str) -> str:
    """Escapes a path for SQLite's `file:` URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")

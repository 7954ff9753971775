"""PostgreSQL databases: a transaction is one function over statements by name.

The same functions run over SQLite on a thread. Here they run on the event loop, in a greenlet of
SQLAlchemy's that lets others run while a statement is under way; asyncpg sends what SQLAlchemy compiled.

Writers of all servers exclude each other with an advisory lock that the database gives back at the end of the
transaction, however it ends: the revision is counted on inside it, so there are neither gaps nor two events
of one revision. With READ COMMITTED, what comes behind the lock sees what its last holder has committed.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.util.concurrency import await_, greenlet_spawn

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.postgresql.connections import (
    DIALECT,
    FAILURES,
    OLDEST,
    Connection,
    Listener,
    PostgreSQLServer,
    SchemaConnection,
    close,
    is_lost,
)
from kubeskew.apiserver.storage.statements import Dialect, Row, Session, Statement, compile_all
from kubeskew.migrations import upgrade

T = TypeVar("T")

READERS = 4  # connections that read while the writer writes
_WRITERS_LOCK = 0x6B736B77  # "kskw", with the number that the database gave the table
# Few keys are looked up by their indexes, although the planner has not counted the tables.
_BY_INDEX = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
# Acknowledged writes are on the disk, also where the server's default is another.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_ABOUT = (
    "SELECT current_schema(), current_setting('server_encoding'), current_setting('fsync'), "
    "pg_is_in_recovery()"
)
_MISSING_RIGHT = (
    "SELECT doing, name FROM (VALUES ('SELECT', 'SELECT from'), ('INSERT', 'INSERT into'), "
    "('UPDATE', 'UPDATE'), ('DELETE', 'DELETE from')) rights (called, doing), "
    "unnest(ARRAY['events', 'siblings', 'authors', 'objects', 'leases', 'renewals', 'timeline', 'meta']) "
    "name WHERE NOT has_table_privilege(name, called) "
    "UNION ALL SELECT 'use', number FROM pg_get_serial_sequence('timeline', 'seq') number "
    "WHERE NOT has_sequence_privilege(number, 'USAGE')"
)
_TABLE = "SELECT 'events'::regclass::oid::bigint"

logger = logging.getLogger(__name__)


def _dialect() -> Dialect:
    elements = sa.func.json_array_elements(sa.cast(sa.bindparam("keys"), sa.JSON))
    keys = elements.table_valued(sa.column("value", sa.JSON), with_ordinality="ordinal").render_derived()
    value = sa.type_coerce(keys.c.value, sa.JSON)
    parts = [value.op("->>")(sa.literal_column(str(place))) for place in range(3)]
    place = keys.c.ordinal - sa.literal_column("1")
    return Dialect(DIALECT, insert, keys, place, parts)


@functools.cache
def statements() -> dict[str, Statement]:
    return compile_all(_dialect())


class PostgreSQLSession:
    """Implements `statements.Session`, inside `greenlet_spawn`."""

    def __init__(self, connection: Connection, named: Mapping[str, Statement]) -> None:
        self.connection = connection
        self._statements = named

    def all(self, name: str, /, **values: object) -> list[Any]:
        statement = self._statements[name]
        rows = await_(self.connection.fetch(statement.sql, *statement.bind(values)))
        return [tuple(row) for row in rows]

    def many(self, name: str, rows: Sequence[Row]) -> None:
        await_(self.connection.executemany(self._statements[name].sql, rows))

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        self.many(name, rows)

    def run(self, name: str, /, **values: object) -> int:
        statement = self._statements[name]
        tag: str = await_(self.connection.execute(statement.sql, *statement.bind(values)))
        return int(tag.rpartition(" ")[2])  # as in DELETE 5


class PostgreSQLDatabase:
    """Implements `statements.Database`: a connection that writes, some that read, one that listens."""

    shared = True
    there = True

    def __init__(self, url: str, *, read_only: bool) -> None:
        self._server = PostgreSQLServer(url)
        self._read_only = read_only
        self._statements = statements()
        self._writer: Connection | None = None
        self._writing = asyncio.Lock()
        self._readers: Any = None
        self._listener: Listener | None = None
        self._table = 0
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Opens the database of `url` (`postgresql://USER@HOST/NAME`), and gives it the newest schema unless
        it is only read. Raises StorageError.
        """
        database = cls(url, read_only=read_only)
        try:
            await database._start()
        except FAILURES as error:
            await database.close()
            raise database._server.failure(error) from error
        except upgrade.SchemaError as error:
            await database.close()
            raise StorageError(f"{database.place}: {error}") from error
        except BaseException:
            await database.close()
            raise
        return database

    async def _start(self) -> None:
        connection = await self._connected()
        await self._check(connection)
        if self._read_only:
            await greenlet_spawn(upgrade.check, SchemaConnection(connection))
        else:
            await greenlet_spawn(upgrade.prepare, SchemaConnection(connection), self._migrate)
            await self._check_rights(connection)
        self._table = await connection.fetchval(_TABLE)
        self._readers = await self._server.pool(READERS)
        query = self._statements["revision"].sql
        self._listener = Listener(self._server, query, self._channel, self._is_own)

    async def _check(self, connection: Connection) -> None:
        """Raises StorageError for a server or a database that cannot keep a log."""
        release = connection.get_server_version()[0]
        if release < OLDEST:
            raise StorageError(
                f"{self.place}: PostgreSQL {release} is too old: {OLDEST} or a newer one is needed"
            )
        schema, encoding, fsync, standby = await connection.fetchrow(_ABOUT)
        if schema is None:
            raise StorageError(
                f"{self.place}: no schema of its search_path is there: make one with CREATE SCHEMA"
            )
        if encoding != "UTF8":
            raise StorageError(f"{self.place}: the database's encoding is {encoding}: it must be UTF8")
        if standby and not self._read_only:
            raise StorageError(f"{self.place}: the server is a standby, which only reads: name the primary")
        if fsync == "off" and not self._read_only:
            logger.warning(
                "%s has fsync=off: what was acknowledged is lost when its machine fails", self.place
            )

    async def _check_rights(self, connection: Connection) -> None:
        """Raises StorageError unless the user may do all that the log does: at the start, not at the first
        write.
        """
        if missing := await connection.fetchrow(_MISSING_RIGHT):
            raise StorageError(
                f"{self.place}: the user may not {missing[0]} {missing[1]}: "
                "GRANT ALL on all tables and sequences of the schema to it"
            )

    def _migrate(self) -> None:
        await_(upgrade.upgrade_over("postgresql+asyncpg://", self._server.connect))

    @property
    def place(self) -> str:
        return self._server.place

    @property
    def _channel(self) -> str:
        return f"kubeskew_{self._table}"

    @property
    def _begin(self) -> str:
        table = self._table - (1 << 32 if self._table >= 1 << 31 else 0)  # as a signed number
        return f"BEGIN; SELECT pg_advisory_xact_lock({_WRITERS_LOCK}, {table})"

    def _is_own(self, process: int) -> bool:
        return self._writer is not None and process == self._writer.get_server_pid()

    async def _connected(self) -> Connection:
        """Connects again if the connection that writes is lost."""
        if self._writer is None or self._writer.is_closed():
            self._writer = await self._server.connect()
            await self._writer.execute(f"{_BY_INDEX}; {_DURABLE}")
        return self._writer

    async def write(self, work: Callable[[Session], T]) -> T:
        """Runs `work` in a transaction that holds the writers' lock, and commits it. Raises StorageError.

        What was begun is finished also if the caller stops waiting. A connection that is lost during the
        commit leaves its outcome unknown: it is a failure, and events that were written anyway come back as
        another server's writes do.
        """
        return await asyncio.shield(asyncio.ensure_future(self._write(work)))

    async def write_briefly(self, work: Callable[[Session], T]) -> T:
        return await self.write(work)

    async def _write(self, work: Callable[[Session], T]) -> T:
        async with self._writing:
            if self._closed:
                raise StorageError("the store is closed")
            if self._read_only:
                raise StorageError(f"{self.place}: it was opened readonly")
            try:
                connection = await self._begun()
                return await self._transact(connection, work)
            except FAILURES as error:
                raise self._server.failure(error) from error

    async def _begun(self) -> Connection:
        """Begins a transaction on the connection that writes. A second try loses nothing."""
        connection = await self._connected()
        try:
            await connection.execute(self._begin)
        except FAILURES as error:
            if not is_lost(error):
                await _rolled_back(connection)
                raise
            connection.terminate()
            connection = await self._connected()
            await connection.execute(self._begin)
        return connection

    async def _transact(self, connection: Connection, work: Callable[[Session], T]) -> T:
        try:
            result = await greenlet_spawn(work, PostgreSQLSession(connection, self._statements))
            await connection.execute(f"NOTIFY {self._channel}; COMMIT")
        except BaseException:
            await _rolled_back(connection)
            raise
        return result

    async def read(self, work: Callable[[Session], T]) -> T:
        if self._closed:
            raise StorageError("the store is closed")
        try:
            return await self._read(work)
        except FAILURES as error:
            if not is_lost(error):
                raise self._server.failure(error) from error
        try:
            return await self._read(work)  # over a connection that is not the lost one
        except FAILURES as error:
            raise self._server.failure(error) from error

    async def _read(self, work: Callable[[Session], T]) -> T:
        async with (
            self._readers.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            try:
                return await greenlet_spawn(work, PostgreSQLSession(connection, self._statements))
            except FAILURES as error:
                if is_lost(error):
                    connection.terminate()
                raise

    async def newest(self) -> int | None:
        if self._listener is None or self._closed:
            raise StorageError("the store is closed")
        return await self._listener.newest()

    def committed(self) -> int:
        return 0

    def note(self, revision: int) -> None:
        """PostgreSQL loses no committed transaction silently: no mark is needed."""

    async def wait_for_others(self, clock: Clock) -> None:
        if self._listener is None:
            raise StorageError("the store is closed")
        await self._listener.wait(clock)

    async def damages(self) -> Sequence[str]:
        return ()  # checking a server's files is its administrator's: pg_amcheck, checksums of pages

    async def size(self) -> int:
        async with self._readers.acquire() as connection:
            return int(await connection.fetchval("SELECT pg_database_size(current_database())"))

    async def close(self) -> None:
        """Finishes the transaction under way, then closes all connections; idempotent."""
        async with self._writing:
            self._closed = True
            writer, self._writer = self._writer, None
            if writer is not None:
                await close(writer)
        if self._listener is not None:
            await self._listener.close()
        readers, self._readers = self._readers, None
        if readers is not None:
            await readers.close()


async def _rolled_back(connection: Connection) -> None:
    """Ends the transaction of a connection, or the connection."""
    try:
        await connection.execute("ROLLBACK")
    except FAILURES:
        connection.terminate()

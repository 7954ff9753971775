"""Connections to PostgreSQL over asyncpg, with one-line errors of connecting and of statements."""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import Dialect
from sqlalchemy.util.concurrency import await_

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.urls import without_password

try:
    import asyncpg
except ImportError as error:
    raise StorageError(
        "a log in PostgreSQL needs asyncpg: install it with the extra, pip install 'kubeskew[postgres]'"
    ) from error

OLDEST = 13  # the oldest major version that PostgreSQL still maintained in 2025
CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 60.0
CLOSE_SECONDS = 5.0
LISTEN_SECONDS = 2.0  # without a notification, after which the log is read in any case
RETRY_SECONDS = 0.5
SETTINGS = {
    "application_name": "kubeskew",
    "lock_timeout": "10s",  # how long a writer waits for another server's transactions
    # A server whose machine is gone must not hold the lock for as long as TCP keeps its connection.
    "idle_in_transaction_session_timeout": "20s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "jit": "off",  # compiling takes longer than any statement here
}
_SCHEMA_LOCK = 0x6B756265  # "kube": held while the schema is made or migrated
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # of a connection that the server ended between two statements
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    OSError,
)
_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")  # parameters of libpq's
_ABOUT_THE_CHANGE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    ValueError,  # also asyncpg's own of what cannot be sent at all
    OverflowError,
)
FAILURES = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    ValueError,
    OverflowError,
)

# with parameters as asyncpg has them, $1; SQLAlchemy has not annotated this constructor
DIALECT: Dialect = PGDialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]

Connection = Any  # asyncpg.Connection, which has no types


class PostgreSQLServer:
    def __init__(self, url: str) -> None:
        self.place = without_password(url)
        scheme, _, rest = url.partition("://")
        self.dsn = f"{scheme.partition('+')[0]}://{rest}"

    async def connect(self) -> Connection:
        """Connects in autocommit. Raises StorageError."""
        try:
            return await asyncpg.connect(
                self.dsn, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=SETTINGS
            )
        except (asyncpg.PostgresError, asyncpg.InternalClientError) as error:
            raise self.failure(error) from error
        except ssl.SSLCertVerificationError as error:  # which is a ValueError as well
            raise StorageError(
                f"{self.place}: cannot connect: the server's certificate is not trusted: "
                f"{error.verify_message.rstrip('.')}; sslrootcert=FILE in the URL names its authority"
            ) from error
        except (FileNotFoundError, PermissionError) as error:  # which do not say what cannot be read
            raise self.failure(error, f"cannot connect: {self._unreadable()}") from error
        except ValueError as error:  # asyncpg's own errors about URLs are among these
            said = " ".join(str(error).split())
            raise StorageError(f"{self.place} is no URL of a database: {said}") from error
        except (ConnectionRefusedError, socket.gaierror) as error:
            hint = "cannot connect: is a PostgreSQL running there, and is that its host and port? "
            raise self.failure(error, hint) from error
        except FAILURES as error:
            raise self.failure(error, "cannot connect: ") from error

    def _unreadable(self) -> str:
        """The message begins with the first file for TLS of the URL that cannot be read; empty if all can."""
        named = dict(parse_qsl(urlsplit(self.dsn).query))
        found = (
            f"{name}={named[name]}: " for name in _TLS_FILES if not os.access(named.get(name, "/"), os.R_OK)
        )
        return next(found, "")

    def pool(self, most: int) -> Any:
        """Connections are made when they are needed, at most `most`."""
        return asyncpg.create_pool(
            self.dsn, min_size=0, max_size=most, reset=_keep, timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS, server_settings=SETTINGS,
        )  # fmt: skip

    def failure(self, error: BaseException, doing: str = "") -> StorageError:
        """Puts asyncpg's error into one line; DamageError for corrupted data or indexes."""
        text = " ".join(str(error).split()) or _WORDLESS.get(type(error).__name__, type(error).__name__)
        if isinstance(error, asyncpg.DataCorruptedError | asyncpg.IndexCorruptedError):
            failure: StorageError = DamageError(f"{self.place}: {doing}{text}")
        else:
            failure = StorageError(f"{self.place}: {doing}{text}")
        failure.refused = isinstance(error, OSError) or not isinstance(error, _ABOUT_THE_CHANGE)
        return failure


_WORDLESS = {"TimeoutError": "no answer in time"}


def is_lost(error: BaseException) -> bool:
    """True if the connection is gone, or was before the call."""
    return isinstance(error, _LOST) and not isinstance(error, ValueError)  # of an unsendable value


async def _keep(_: Connection) -> None:
    """Connections go back to their pool as they are: nothing is ever set in one."""


async def close(connection: Connection) -> None:
    """Terminates the connection if the server does not answer within CLOSE_SECONDS."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except FAILURES:
        connection.terminate()


class SchemaConnection:
    """Implements `upgrade.Connection`, inside `greenlet_spawn`."""

    dialect = DIALECT

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tables(self) -> set[str]:
        query = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
        return {name for (name,) in self.rows(query)}

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        return [tuple(row) for row in await_(self._connection.fetch(sql))]

    def run(self, sql: str) -> None:
        await_(self._connection.execute(sql))

    def begin(self) -> None:
        self.run(f"BEGIN; SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")


class Listener:
    """Asks for the newest revision, and listens to other servers' commits, on a connection of its own.

    Callers that come while a query is under way share the next one: its answer is no older than their calls,
    however many there are.
    """

    def __init__(
        self, server: PostgreSQLServer, query: str, channel: str, own: Callable[[int], bool]
    ) -> None:
        self._server = server
        self._query = query
        self._channel = channel
        self._own = own  # True for the database's process that serves this writer
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._asking: asyncio.Task[int | None] | None = None
        self._next: asyncio.Task[int | None] | None = None
        self._notified = asyncio.Event()

    async def newest(self) -> int | None:
        """Raises StorageError."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._asking), name="newest revision")
        return await asyncio.shield(self._next)

    async def _ask_after(self, before: asyncio.Task[int | None] | None) -> int | None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        try:
            return await self._fetch()
        except FAILURES as error:
            if not is_lost(error):
                raise self._server.failure(error) from error
        try:
            return await self._fetch()  # over a connection that is not the lost one
        except FAILURES as error:
            raise self._server.failure(error) from error

    async def _fetch(self) -> int | None:
        connection = await self._connected()
        try:
            found: int | None = await connection.fetchval(self._query)
        except FAILURES as error:
            if is_lost(error):
                connection.terminate()
            raise
        return found

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                connection = await self._server.connect()
                try:
                    await connection.add_listener(self._channel, self._on_notification)
                except BaseException:
                    await close(connection)
                    raise
                connection.add_termination_listener(self._on_termination)
                self._connection = connection
                self._notified.set()  # there may have been notifications before
            return self._connection

    def _on_notification(self, _connection: Connection, process: int, _channel: str, _payload: str) -> None:
        if not self._own(process):
            self._notified.set()

    def _on_termination(self, _connection: Connection) -> None:
        self._notified.set()

    async def wait(self, clock: Clock) -> None:
        """Ends with a notification of another server's commit, or after LISTEN_SECONDS without one."""
        try:
            await self._connected()
        except (StorageError, *FAILURES):
            await clock.sleep(RETRY_SECONDS)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_SECONDS):
                await self._notified.wait()
        self._notified.clear()

    async def close(self) -> None:
        """Closes the connection; idempotent."""
        tasks: list[Awaitable[Any]] = [task for task in (self._asking, self._next) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.remove_termination_listener(self._on_termination)
            await close(connection)

"""Brings a database to the newest schema. Blocking: for a thread.

A fresh database gets the newest schema in one go, from the same tables (a test holds the two equal); Alembic,
whose import costs as much as starting the rest of the server, is for older databases only.
"""

import re
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import insert, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from kubeskew.migrations.tables import HEAD, alembic_version, metadata

if TYPE_CHECKING:
    from alembic.config import Config

_VERSION_TABLE = alembic_version.name
_BASE = "base"  # as Alembic calls where there are no tables yet
_VERSION = re.compile("[0-9]{4}")
_VERSIONS = Path(__file__).parent / "versions"
_INSTEAD = "open it with the kubeskew that wrote it, or restore a copy, or start with an empty database"


class SchemaError(Exception):
    """This version of kubeskew cannot use the database."""


class Connection(Protocol):
    """Shows and changes the schema of a database: a connection in autocommit."""

    @property
    def dialect(self) -> Dialect: ...

    def tables(self) -> set[str]: ...

    def rows(self, sql: str) -> Sequence[Sequence[Any]]: ...

    def run(self, sql: str) -> None: ...

    def begin(self) -> None:
        """Begins a transaction that no other change of the schema overlaps."""
        ...


class SQLiteConnection:
    """Implements `Connection` over one of sqlite3."""

    dialect = sqlite.dialect()

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def tables(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        return self._raw.execute(sql).fetchall()

    def run(self, sql: str) -> None:
        self._raw.execute(sql)

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")


def prepare(connection: Connection, migrate: Callable[[], None]) -> None:
    """Brings the database of `connection` to the newest schema.

    `migrate` is called for an older one, with no transaction open. Raises SchemaError.
    """
    found = _version(connection)
    if found == HEAD:
        return
    if found is not None:
        _check_known(found)
        migrate()
        return
    connection.begin()
    try:
        if _version(connection) is None:  # another server may have created it meanwhile
            create(connection)
    except BaseException:
        connection.run("ROLLBACK")
        raise
    connection.run("COMMIT")


def check(connection: Connection) -> None:
    """Raises SchemaError unless the database can be read as it is."""
    found = _version(connection)
    if found is None:
        raise SchemaError("not an event store: it is empty")
    _check_known(found)
    if found != HEAD:
        raise SchemaError(f"schema {found} is older than {HEAD}: starting the cluster brings it up to date")


def _version(connection: Connection) -> str | None:
    """None if the database is empty, "base" if all it has is Alembic's table; raises SchemaError if it is no
    event store."""
    tables = connection.tables()
    if not tables:
        return None
    others = ", ".join(sorted(tables - {_VERSION_TABLE}))
    if _VERSION_TABLE not in tables:
        raise SchemaError(f"not an event store: it has the tables {others}; {_INSTEAD}")
    rows = connection.rows(str(select(alembic_version.c.version_num)))
    if len(rows) == 1:
        return str(rows[0][0])
    if not rows and not others:
        return _BASE
    has = "is empty" if not rows else f"has {len(rows)} rows"
    raise SchemaError(f"nothing says at which schema its tables are: {_VERSION_TABLE} {has}; {_INSTEAD}")


def _check_known(found: str) -> None:
    """Raises SchemaError for a schema that no migration leads from."""
    if found == _BASE:
        return
    if not _VERSION.fullmatch(found):
        raise SchemaError(f"not an event store: {found!r} is no schema of kubeskew's; {_INSTEAD}")
    if found > HEAD:
        problem = f"newer than {HEAD}, the newest"
    elif found not in (known := sorted(path.name[:4] for path in _VERSIONS.glob("[0-9]*.py"))):
        problem = (
            f"older than {known[0]}, the oldest" if found < known[0] else f"none of {', '.join(known)}, all"
        )
    else:
        return
    raise SchemaError(f"schema {found} is {problem} this version of kubeskew knows; {_INSTEAD}")


def create(connection: Connection) -> None:
    """Makes the tables of the newest schema in a database without any."""
    dialect = connection.dialect
    for table in (*metadata.sorted_tables, alembic_version):
        connection.run(str(CreateTable(table).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))  # type: ignore[set-order]  # unique
        for index in indexes:
            connection.run(str(CreateIndex(index).compile(dialect=dialect)))
    at = insert(alembic_version).values(version_num=HEAD)
    connection.run(str(at.compile(dialect=dialect, compile_kwargs={"literal_binds": True})))


def config() -> "Config":
    from alembic.config import Config

    found = Config()
    found.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    return found


async def upgrade_over(url: str, connect: Callable[[], Awaitable[Any]], target: str = "head") -> None:
    """Runs Alembic's migrations over the driver's connection that `connect` makes, in one transaction.

    `url` names the dialect and the driver.
    """
    from alembic import command
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url, async_creator=connect)
    settings = config()

    def run(connection: Any) -> None:
        settings.attributes["connection"] = connection
        command.upgrade(settings, target)

    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


def upgrade(path: str, target: str = "head") -> None:
    """Runs Alembic's migrations on the SQLite file at `path`, under a write lock from beginning to end."""
    import sqlalchemy
    from alembic import command

    engine = sqlalchemy.create_engine(
        sqlalchemy.URL.create("sqlite", database=path), connect_args={"isolation_level": None}
    )
    sqlalchemy.event.listen(engine, "begin", lambda found: found.exec_driver_sql("BEGIN IMMEDIATE"))
    settings = config()
    try:
        with engine.begin() as connection:
            settings.attributes["connection"] = connection
            command.upgrade(settings, target)
    finally:
        engine.dispose()

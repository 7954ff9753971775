"""Bring a database to the newest schema. Blocking: for a thread.

A fresh database gets what the migrations lead to in one go, from the same tables (a test holds the two
equal); Alembic, whose import costs as much as starting the rest of the server, is for older databases only.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from migrations.tables import HEAD, alembic_version, metadata

if TYPE_CHECKING:
    from alembic.config import Config


class SchemaError(Exception):
    """The database is not one that this version of kubeskew can use."""


def prepare(connection: sqlite3.Connection, migrate: Callable[[], None]) -> None:
    """Make the database of `connection` (autocommit) have the newest schema.

    `migrate` is called for an older one, with no transaction open. Raises SchemaError.
    """
    found = _version(connection)
    if found == HEAD:
        return
    if found is not None:
        _check_known(found)
        migrate()
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _version(connection) is None:  # another server may have been faster
            _create(connection)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> str | None:
    """The schema the database is at, None if it is empty."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return None
    if "alembic_version" not in tables:
        raise SchemaError(f"not an event store: it has the tables {', '.join(sorted(tables))}")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else ""


def _check_known(found: str) -> None:
    if found > HEAD:
        raise SchemaError(f"schema {found} is newer than {HEAD}, the newest this version of kubeskew knows")


def _create(connection: sqlite3.Connection) -> None:
    dialect = sqlite.dialect()
    for table in (*metadata.sorted_tables, alembic_version):
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in table.indexes:
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (HEAD,))


def config() -> "Config":
    """Alembic's configuration for this package."""
    from alembic.config import Config

    found = Config()
    found.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    return found


def upgrade(path: str, target: str = "head") -> None:
    """Run Alembic's migrations on the SQLite file at `path`, under a write lock from beginning to end."""
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

"""Branches, repairs and removals of logs in PostgreSQL.

A log that takes the place of another is in a new schema of the same database, and the other stays as it is.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from hashlib import sha256

from sqlalchemy.util.concurrency import await_

from kubeskew.apiserver.storage.integrity import (
    Repair,
    Salvage,
    all_events,
    branched_id,
    copy_log,
    fill,
    rebuilt,
)
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.operations import NO_LIMIT, Metadata, newest
from kubeskew.apiserver.storage.postgresql.connections import FAILURES, Connection, PostgreSQLServer, close
from kubeskew.apiserver.storage.postgresql.database import PostgreSQLDatabase
from kubeskew.apiserver.storage.records import Branch, ComponentEvent
from kubeskew.apiserver.storage.sqlite import maintenance as files
from kubeskew.apiserver.storage.statements import Session, entry_of
from kubeskew.apiserver.storage.urls import with_schema, without_password
from kubeskew.migrations.tables import alembic_version, metadata

_PREFIX = "kubeskew_"  # of the schemas that are made here
_MADE = re.compile(f"{_PREFIX}[0-9a-f]{{16}}")  # schemas of others with similar names stay


async def branch_to_file(url: str, path: str, note: ComponentEvent) -> Branch:
    def copied(source: Session) -> Branch:
        with files.receiving(path) as target:
            return copy_log(source, target, note)

    source = await PostgreSQLDatabase.open(url, read_only=True)
    try:
        return await source.read(copied)
    finally:
        await source.close()


async def branch_into_schema(url: str, note: ComponentEvent) -> tuple[str, Branch]:
    """Writes the log at `url` up to the note's revision into a new schema, and returns the URL of that
    too.
    """
    source = await PostgreSQLDatabase.open(url, read_only=True)
    try:
        before = await source.read(Metadata.read)
        async with _new_schema(url, branched_id(before.store_id, note)) as target_url:
            target = await PostgreSQLDatabase.open(target_url)
            try:
                made = await source.read(lambda s: await_(target.write(lambda t: copy_log(s, t, note))))
            finally:
                await target.close()
        return target_url, made
    finally:
        await source.close()


async def repair_into_schema(url: str, now: datetime) -> tuple[str, Repair]:
    """Rebuilds the log at `url` in a new schema, and returns the URL of that too. Raises StorageError."""
    source = await PostgreSQLDatabase.open(url)  # which brings its schema up to date
    try:
        salvage = await source.read(_salvage)
        repair, objects, kept = rebuilt(salvage, await source.read(newest))
        name = sha256(f"{kept.store_id}\0repaired\0{now}".encode()).hexdigest()
        async with _new_schema(url, name) as target_url:
            target = await PostgreSQLDatabase.open(target_url)
            try:
                await target.write(lambda session: fill(session, salvage, objects, kept))
            finally:
                await target.close()
    finally:
        await source.close()
    repair.kept = source.place
    return target_url, repair


def _salvage(session: Session) -> Salvage:
    rows = {(row[0], sub): tuple(row) for sub, row in all_events(session)}
    return Salvage(
        events={revision: row for (revision, sub), row in rows.items() if not sub},
        siblings={place: row for place, row in rows.items() if place[1]},
        authors=session.all("authors", since=0, until=NO_LIMIT),
        projection=[entry_of(row) for row in session.all("entries")],
        timeline=session.all("timeline", since=0, seq=0),
        leases=session.all("leases"),
        metadata=Metadata.read(session),
    )


@asynccontextmanager
async def _new_schema(url: str, name: str) -> AsyncIterator[str]:
    """Creates a schema in the database of `url`, and yields its URL; an error removes it again.

    Raises StorageError if a session of that URL begins in another schema, the one of the log that is read.
    """
    schema = f"{_PREFIX}{name[:16]}"
    async with _connected(url) as connection:
        await connection.execute(f"CREATE SCHEMA {schema}")
    target_url = with_schema(url, schema)
    try:
        async with _connected(target_url) as connection:
            there = await connection.fetchval("SELECT current_schema()")
        if there != schema:
            raise StorageError(
                f"{without_password(target_url)}: the session is in the schema {there}, not in {schema}: "
                "connect to PostgreSQL directly, without a pooler"
            )
        yield target_url
    except BaseException:
        async with _connected(url) as connection:
            await connection.execute(f"DROP SCHEMA {schema} CASCADE")
        raise


async def remove(url: str) -> None:
    """Removes the log at `url`: its tables, and its schema if that was made here. Raises StorageError."""
    async with _connected(url) as connection:
        schema = await connection.fetchval("SELECT quote_ident(current_schema())")
        if schema is None:
            return
        if _MADE.fullmatch(schema):
            await connection.execute(f"DROP SCHEMA {schema} CASCADE")
            return
        tables = [*metadata.sorted_tables, alembic_version]
        names = ", ".join(f"{schema}.{table.name}" for table in tables)
        await connection.execute(f"DROP TABLE IF EXISTS {names}")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    server = PostgreSQLServer(url)
    connection = await server.connect()
    try:
        yield connection
    except FAILURES as error:
        raise server.failure(error) from error
    finally:
        await close(connection)

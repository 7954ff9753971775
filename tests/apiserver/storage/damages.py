"""Stores to be damaged, and SQL that damages them as accidents do."""

import sqlite3
from contextlib import closing
from pathlib import Path

from storage_cases import CLOCK, create, delete, pod, update, url_in

from kubeskew.apiserver.storage.records import Event, Key
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore


def value(text: str) -> bytes:
    """A stored object."""
    return b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%b"}}' % text.encode()


async def opened(directory: Path) -> CachedStore:
    """The store in a directory, made if there is none. Raises StorageError."""
    log = await SQLLog.open(url_in(directory), CLOCK)
    try:
        return await CachedStore.open(log, CLOCK)
    except BaseException:
        await log.close()
        raise


async def fill(directory: Path, objects: int = 10) -> None:
    """Pods p0, p1, … at revisions 2, 3, …; then p0 is changed, p1 deleted, and p2 deleted and made again."""
    async with await opened(directory) as store:
        created: list[Event] = [
            await store.write(create(pod(f"p{number}"), value(f"p{number}"))) for number in range(objects)
        ]
        await store.write(update(created[0], value("p0 again")))
        await store.write(delete(created[1]))
        await store.write(delete(created[2]))
        await store.write(create(pod("p2"), value("p2 again"), "u2"))
        await store.write(create(Key("configmaps", "default", "c"), value("c")))


def sql(directory: Path, statement: str, *arguments: object) -> None:
    """Run one statement on the database, as nobody should."""
    with closing(sqlite3.connect(directory / "events.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema=ON")
        raw.execute(statement, arguments)
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")

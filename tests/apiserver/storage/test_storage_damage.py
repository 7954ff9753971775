"""A damaged file and a clock that jumps: a clear error or no difference at all, and nothing made worse."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from storage_cases import CLOCK, create, every_event, pod, update, url_in

from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore


async def filled(directory: Path, objects: int) -> None:
    """A closed log with so many objects, everything in its main file."""
    log = await SQLLog.open(url_in(directory), CLOCK)
    async with await CachedStore.open(log, CLOCK) as store:
        for number in range(objects):
            await store.write(create(pod(f"p{number:04}"), b"x" * 3000))
    with sqlite3.connect(directory / "events.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()


def overwrite_pages(file: Path, table: str) -> None:
    """Write noise over every page of a table but its root."""
    with sqlite3.connect(file) as raw:
        size = raw.execute("PRAGMA page_size").fetchone()[0]
        root = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    raw.close()
    data = bytearray(file.read_bytes())
    for page in range(root + 1, len(data) // size + 1):
        data[(page - 1) * size : page * size] = b"\xa5" * size
    file.write_bytes(data)


async def read_all(directory: Path) -> None:
    """Open the log and read every object and event."""
    log = await SQLLog.open(url_in(directory), CLOCK)
    try:
        await log.entries()
        await every_event(log)
    finally:
        await log.close()


@pytest.mark.parametrize("table", ["objects", "events"])
async def test_a_corrupt_page_is_a_clear_error(tmp_path: Path, table: str) -> None:
    """Whatever meets the damage says that the database is malformed, and the file stays as it is."""
    await filled(tmp_path, 40)
    file = tmp_path / "events.db"
    overwrite_pages(file, table)
    damaged = file.read_bytes()

    with pytest.raises(StorageError, match="malformed"):
        await read_all(tmp_path)

    assert file.read_bytes() == damaged


async def test_a_clock_that_jumps_changes_no_order(tmp_path: Path) -> None:
    """Events are ordered by revision alone: a clock an hour back, or in the year 1, moves nothing."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    async with await CachedStore.open(log, CLOCK) as store:
        first = await store.write(create(pod()))
        watch = store.watch("pods", None, None, first.revision)
        times = [
            datetime(2026, 1, 2, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 1, 1, tzinfo=UTC),
        ]
        last = first
        for time in times:
            last = await store.write(update(last)._replace(time=time, value=str(time).encode()))
        seen: list[datetime] = []
        async for batch in watch:
            seen += [event.time for event in batch]
            if len(seen) == len(times):
                break
        watch.close()

        assert seen == times
        assert [event.revision for event in await every_event(log)] == list(range(2, 6))
        assert last.revision - first.revision == len(times)

"""Nothing acknowledged is lost, nothing half-written is left: kill -9, full disks, locks, cancellation."""

import asyncio
import os
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from storage_cases import CLOCK, create, every_event, pod, update, url_in
from transaction_writers import PODS

from kubeskew.apiserver.storage import sql_log
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import Event, Key
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite import database as sqlite
from kubeskew.apiserver.storage.store import CachedStore

HERE = Path(__file__).parent


async def start_writers(url: str, name: str) -> asyncio.subprocess.Process:
    return await start("durable_writers.py", url, name, "16")


async def start(program: str, *arguments: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[2])])}
    return await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / program), *arguments, stdout=asyncio.subprocess.PIPE, env=environment
    )


async def kill_after(process: asyncio.subprocess.Process, acknowledged: int) -> list[str]:
    """Kills the process after `acknowledged` writes and returns its output; a torn last line does not
    count."""
    assert process.stdout is not None
    output = b""
    while output.count(b"\n") < acknowledged:
        read = await process.stdout.read(4096)
        assert read, "the writers have ended"
        output += read
    process.kill()
    output += await process.stdout.read()
    await process.wait()
    return output[: output.rindex(b"\n")].decode().splitlines()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("acknowledged", [1, 97, 800])
async def test_kill_loses_no_acknowledged_write(url: str, processes: int, acknowledged: int):
    """After SIGKILL every acknowledged write is in the log, and log and projection agree to the byte."""
    running = [await start_writers(url, "ab"[number]) for number in range(processes)]
    lines = [
        line
        for lines in await asyncio.gather(*(kill_after(p, acknowledged) for p in running))
        for line in lines
    ]
    log = await SQLLog.open(url, CLOCK)
    events = {event.revision: event for event in await every_event(log)}
    assert list(events) == list(range(2, len(events) + 2))
    assert len(lines) == len(set(lines)) >= acknowledged
    for line in lines:
        event = events[int(line.split()[0])]
        assert line == f"{event.revision} {event.verb.value} {event.key.name} {event.value.decode()}"
    mark = log._database.committed()
    assert mark <= len(events) + 1  # it may lag, and never runs ahead
    assert (mark >= 2) == url.startswith("sqlite")
    _, entries = await log.entries()  # checked against digest, count and high-water mark
    assert digest(entries) == digest(fold(events.values()).values())
    await log.close()
    async with await LogReader.open(url) as reader:
        assert (await reader.replay()).differences == []
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.partition(":///")[2])) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("acknowledged", [1, 60])
async def test_kill_leaves_transactions_whole(url: str, acknowledged: int):
    """After SIGKILL every acknowledged transaction is in the log, and of the others all events or none."""
    process = await start("transaction_writers.py", url, "8")
    revisions = set(map(int, await kill_after(process, acknowledged)))
    log = await SQLLog.open(url, CLOCK)
    events = await every_event(log)
    counts = Counter(event.revision for event in events)
    assert revisions <= counts.keys() == set(range(2, len(counts) + 2))
    assert [event.sub for event in events] == [sub for count in counts.values() for sub in range(count)]
    assert set(counts.values()) <= {PODS, 2 * PODS}
    _, entries = await log.entries()
    assert len(entries) == PODS * sum(count == PODS for count in counts.values())
    await log.close()
    async with await LogReader.open(url) as reader:
        assert (await reader.replay()).differences == []


async def most_pages(log: SQLLog, count: int) -> None:
    """Limits the file on both connections that write."""
    for write in (log._database.write, log._database.write_briefly):
        await write(lambda session: session._connection.execute(f"PRAGMA max_page_count={count}"))


async def test_a_full_disk_fails_the_write_and_spares_the_log(tmp_path):
    """Every waiter gets a StorageError; the log is as before, unhealthy, and goes on when there is room."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    store = await CachedStore.open(log, CLOCK)
    first = await store.write(create(pod("first")))
    await most_pages(log, 20)
    changes = [create(pod(f"p{i}"), os.urandom(50_000)) for i in range(8)]
    results = await asyncio.gather(*map(store.write, changes), return_exceptions=True)
    assert {type(result) for result in results} == {StorageError}
    assert "full" in str(results[0])
    assert (store.revision, await every_event(log)) == (first.revision, [first])
    assert not log.healthy
    await most_pages(log, 100_000)
    assert (await store.write(changes[0])).revision == first.revision + 1
    assert log.healthy
    await store.close()


async def test_a_locked_database_is_waited_for(tmp_path):
    """Another process's transaction delays a write and does not fail it."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    other = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(log.append(create(pod())))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    other.execute("COMMIT")
    other.close()
    assert (await waiting).revision == 2
    await log.close()


async def test_a_database_locked_for_too_long_is_an_error(tmp_path, monkeypatch):
    """The write fails, nothing is written, and the next one works."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.01)
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    other = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="locked"):
        await log.append(create(pod()))
    other.execute("ROLLBACK")
    other.close()
    assert (await log.append(create(pod()))).revision == 2
    await log.close()


async def test_a_cancelled_waiter_breaks_nobody_else(tmp_path):
    """Others of its batch are written; its own change is whole or absent."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    for patience in range(6):
        tasks = [asyncio.ensure_future(log.append(create(pod(f"{patience}-{i}")))) for i in range(10)]
        for _ in range(patience):
            await asyncio.sleep(0)
        tasks[3].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(result, Event) for result in results) >= 9
    events = await every_event(log)
    assert [event.revision for event in events] == list(range(2, len(events) + 2))
    _, entries = await log.entries()
    assert digest(entries) == digest(fold(events).values())
    await log.close()


async def test_one_bad_change_spares_its_batch(tmp_path):
    """A change that SQL cannot take fails alone."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    first = await log.append(create(pod("x")))
    changes = [create(pod("a")), create(Key("pods", "default", "\ud800")), create(pod("b")), update(first)]
    results = await asyncio.gather(*map(log.append, changes), return_exceptions=True)
    assert [type(result) for result in results] == [Event, StorageError, Event, Event]
    assert [event.revision for event in await every_event(log)] == [2, 3, 4, 5]
    await log.close()


@pytest.mark.parametrize("place", ["mysql://host/db", "nonsense", "sqlite+aiosqlite:////no/such/place/x"])
async def test_a_database_that_cannot_be_opened_is_a_clear_error(place: str):
    """Opening fails with StorageError, and leaves no thread behind."""
    with pytest.raises(StorageError):
        await SQLLog.open(place, CLOCK)


async def test_a_file_that_is_no_database_is_a_clear_error(tmp_path):
    """A text or somebody else's database is refused and stays as it is."""
    (tmp_path / "events.db").write_text("hello, this is not a database at all" * 10)
    with pytest.raises(StorageError, match="not a database"):
        await SQLLog.open(url_in(tmp_path), CLOCK)
    (tmp_path / "events.db").unlink()
    raw = sqlite3.connect(tmp_path / "events.db")
    raw.execute("CREATE TABLE recipes (name TEXT)")
    raw.close()
    with pytest.raises(StorageError, match="not an event store: it has the tables recipes"):
        await SQLLog.open(url_in(tmp_path), CLOCK)


async def test_every_commit_is_synced(tmp_path):
    """The writing connection is in WAL mode with synchronous=FULL."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    for pragma, expected in (("journal_mode", "wal"), ("synchronous", 2)):
        found = await log._database.write(
            lambda session, pragma=pragma: session._connection.execute(f"PRAGMA {pragma}").fetchone()
        )
        assert found == (expected,)
    await log.close()


async def test_a_failing_listener_holds_up_nobody(tmp_path, caplog):
    """The write is committed and answered; memory is mended from the log."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    store = await CachedStore.open(log, CLOCK)
    apply, store._apply = store._apply, None  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError):
        await store.write(create(pod()))
    assert "a listener of the log failed" in caplog.text
    store._apply = apply  # type: ignore[method-assign]
    assert (await store.write(create(pod("b")))).revision == 3
    assert [entry.revision for entry in store.list("pods").entries] == [2, 3]
    await store.close()


async def test_a_mistake_in_one_transaction_does_not_end_the_writer(tmp_path, monkeypatch):
    """Whatever goes wrong with a batch, its waiters learn of it and the next is written."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    with monkeypatch.context() as patch:
        patch.setattr(sql_log, "commit", None)
        with pytest.raises(StorageError, match="not callable"):
            await log.append(create(pod()))
    assert (await log.append(create(pod()))).revision == 2
    await log.close()

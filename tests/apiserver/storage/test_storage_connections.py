"""The database's connections: how many there are, and what their failures are to callers."""

import asyncio
import sqlite3
from threading import Event

import pytest
from storage_cases import CLOCK, create, pod, url_in

from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.sqlite.database import READERS, OneHopConnection, Readers


async def test_many_reads_at_once_share_the_readers(tmp_path, monkeypatch):
    """However many read the log, no more threads are started for them than there are readers."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    event = await log.append(create(pod()))
    opened, original = [], log._database._open_raw

    def counting(timeout):
        opened.append(timeout)
        return original(timeout)

    monkeypatch.setattr(log._database, "_open_raw", counting)
    found = await asyncio.gather(*(log.at(event.revision, "pods") for _ in range(50)))

    assert all(len(entries) == 1 for entries in found)
    assert len(opened) <= READERS
    await log.close()


async def test_a_reader_that_cannot_be_opened_is_a_storage_error(tmp_path, monkeypatch):
    """No file descriptor left, say: the caller learns it in the store's own terms, and reads go on later."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    event = await log.append(create(pod()))

    def failing(_timeout):
        raise sqlite3.OperationalError("unable to open database file")

    with monkeypatch.context() as broken:
        broken.setattr(log._database, "_open_raw", failing)
        with pytest.raises(StorageError, match="unable to open database file"):
            await asyncio.gather(*(log.at(event.revision, "pods") for _ in range(READERS + 1)))
    assert len(await log.at(event.revision, "pods")) == 1
    await log.close()


async def test_a_connection_that_is_opened_while_the_readers_are_closed_is_closed_too():
    """A read that was about to begin fails, and leaves no connection to the collector."""
    begun, go_on, opened = asyncio.Event(), asyncio.Event(), []

    async def connect():
        begun.set()
        await go_on.wait()
        opened.append(
            await OneHopConnection.open(lambda: sqlite3.connect(":memory:", check_same_thread=False))
        )
        return opened[-1]

    readers = Readers(connect, 2)

    async def read():
        async with readers.one():
            raise AssertionError("a closed store was read")

    reading = asyncio.create_task(read())
    await begun.wait()
    await readers.close()
    go_on.set()

    with pytest.raises(StorageError, match="closed"):
        await reading
    with pytest.raises(ValueError, match="no active connection"):
        await opened[0].execute("SELECT 1")
    with pytest.raises(StorageError, match="closed"):
        await read()


async def test_a_close_that_is_cancelled_closes_every_connection(tmp_path):
    """The end of a server that is cancelled leaves neither the writer's connection nor a reader's open."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    database = log._database
    await asyncio.gather(*(log.at(1, "pods") for _ in range(READERS)))
    connections, finish = [database._writer, *database._readers._all], Event()
    busy = [asyncio.create_task(each.hop(lambda _: finish.wait())) for each in connections]

    closing = asyncio.create_task(log.close())
    for _ in range(5):
        await asyncio.sleep(0)
    closing.cancel()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await asyncio.gather(*busy)

    assert len(connections) == 1 + READERS
    for each in connections:
        with pytest.raises(ValueError, match="no active connection"):
            await each.execute("SELECT 1")

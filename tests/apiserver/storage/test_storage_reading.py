"""Reading the log of a cluster from outside, running or not."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from storage_cases import AUTHOR, CLOCK, START, create, delete, pod, update, url_in

from kubeskew.apiserver.storage import sql_log
from kubeskew.apiserver.storage.factory import MemoryStorage, SQLStorage
from kubeskew.apiserver.storage.interfaces import CompactedError, Log, StorageError
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import ComponentEvent, Key, Moment
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog


async def write_some(log: Log) -> None:
    """Revisions 2 to 6, with component events before 2 and after 3."""
    await log.record(ComponentEvent(0, "apiserver", "started", "1.35", "", START))
    event = await log.append(create(pod()))
    await log.append(create(Key("nodes", "", "n")))
    await log.record(ComponentEvent(0, "apiserver", "stopped", "1.35", "", START))
    await log.record(ComponentEvent(0, "apiserver", "started", "1.36", "", START))
    event = await log.append(update(event))
    await log.append(delete(event))
    await log.append(create(pod("b")))


def summary(moments: list[Moment]) -> list[str]:
    return [
        f"{moment.component} {moment.what}" if isinstance(moment, ComponentEvent) else str(moment.revision)
        for moment in moments
    ]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("chunk", [1, 2, 500])
async def test_events_and_components_are_one_story(url, monkeypatch, running: bool, chunk: int):
    """Events and components come in one order, however they are cut; while a server runs, and after."""
    monkeypatch.setattr(sql_log, "CHUNK_EVENTS", chunk)
    log = await SQLLog.open(url, CLOCK)
    await write_some(log)
    if not running:
        await log.close()
    async with await LogReader.open(url) as reader:
        assert summary([moment async for moment in reader.events()]) == [
            "apiserver started", "2", "3", "apiserver stopped", "apiserver started", "4", "5", "6",
        ]  # fmt: skip
        assert summary([moment async for moment in reader.events(3, "pods")]) == [
            "apiserver stopped", "apiserver started", "4", "5", "6",
        ]  # fmt: skip
        assert summary([moment async for moment in reader.events(6)]) == []
    await log.close()


async def test_following_goes_on(url):
    """After what is there comes what happens, once each."""
    log = await SQLLog.open(url, CLOCK)
    await write_some(log)
    async with await LogReader.open(url) as reader:
        following = reader.follow(CLOCK, 4)
        seen = [await anext(following) for _ in range(2)]
        await log.record(ComponentEvent(0, "scheduler", "killed", "1.36", "", START))
        await log.append(create(pod("c")))
        seen += [await anext(following) for _ in range(2)]
        assert summary(seen) == ["5", "6", "scheduler killed", "7"]
        await following.aclose()
    await log.close()


async def test_the_history_of_one_object(url):
    """Every event of it, through its lives."""
    log = await SQLLog.open(url, CLOCK)
    await write_some(log)
    await log.append(create(pod()))
    async with await LogReader.open(url) as reader:
        events = await reader.history(pod())
        assert [event.verb.value for event in events] == ["create", "update", "delete", "create"]
        assert [entry.revision for entry in await reader.at(4, "pods")] == [4]
    await log.close()


async def test_what_compaction_left_replays_to_the_projection(url):
    """Folding the rest gives the same hash as the table, and the horizon is reported."""
    log = await SQLLog.open(url, CLOCK)
    await write_some(log)
    await log.compact(5)
    async with await LogReader.open(url) as reader:
        left = [event async for event in reader.remaining()]
        assert digest(fold(left).values()) == digest(await reader.entries())
        assert (await reader.horizon(), await reader.revision()) == (5, 6)
        assert summary([moment async for moment in reader.events()])[-1] == "6"
        with pytest.raises(CompactedError):
            await anext(reader.events(3))
    await log.close()


async def test_reading_writes_nothing_and_waits_for_nobody(tmp_path):
    """A reader cannot write, and a transaction under way does not hold it up."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    await write_some(log)
    async with await LogReader.open(url_in(tmp_path)) as reader:
        with pytest.raises(StorageError, match="readonly"):
            await reader._database.write(lambda session: session.run("put_meta", name="x", value="y"))
        await log._database.write(lambda session: session.run("put_meta", name="x", value="y"))
        assert await asyncio.wait_for(reader.revision(), 30) == 6
    await log.close()


async def test_there_must_be_something_to_read(tmp_path):
    """A missing database is an error, and is not made."""
    with pytest.raises(StorageError):
        await LogReader.open(url_in(tmp_path))
    assert not (tmp_path / "events.db").exists()


async def test_records_in_memory_agree(tmp_path):
    """A reader of records in memory yields what a reader of the database yields, from any revision on."""
    storage = MemoryStorage()
    rounds: list[list[str]] = []
    in_memory, in_sql = await storage.log("memory", CLOCK), await SQLLog.open(url_in(tmp_path), CLOCK)
    for log, reader in (
        (in_memory, await storage.reader("memory")),
        (in_sql, await SQLStorage().reader(url_in(tmp_path))),
    ):
        await write_some(log)
        stories = [reader.events(since, of) for since in (0, 2, 3, 6) for of in (None, "pods")]
        rounds.append([entry for story in stories for entry in summary([moment async for moment in story])])
        assert await reader.revision() == 6
        await reader.close()
        await log.close()
    assert rounds[0] == rounds[1] != []


async def test_a_follower_learns_that_the_log_is_another(tmp_path):
    """A follower learns that the file was replaced, as a rewind does, in place of waiting for ever."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    await log.append(create(pod()))
    await log.close()
    async with await LogReader.open(url_in(tmp_path)) as reader:
        found = reader.follow(CLOCK)
        assert (await anext(found)).revision == 2
        (tmp_path / "events.db").rename(tmp_path / "old.db")
        with pytest.raises(StorageError, match="removed or replaced, as by a rewind"):
            await anext(found)


class SteppingClock:
    """Stands still, but that each sleep steps on by a second, in which `meanwhile` is done."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.time = START
        self._meanwhile = meanwhile

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - START).total_seconds()

    async def sleep(self, seconds: float) -> None:
        await self._meanwhile()
        self.time += timedelta(seconds=1)


@pytest.mark.parametrize("learnt", [True, False])
async def test_a_follower_waits_for_authors(url, learnt: bool):
    """Writes of a real API server, and what comes after them, are shown with their author, or without one
    once none is to be expected; nothing is shown twice or left out."""
    log = await SQLLog.open(url, CLOCK)
    nobody = AUTHOR._replace(user="")
    await log.append(create(pod("a")))
    await log.append(create(pod("b"))._replace(author=nobody))
    await log.record(ComponentEvent(0, "apiserver", "stopped", "1.36", "", START))
    await log.append(create(pod("c")))
    clock = SteppingClock(lambda: log.attribute([((3, 0), AUTHOR)] if learnt else []))
    async with await LogReader.open(url) as reader:
        following = reader.follow(clock)
        seen = [await anext(following) for _ in range(4)]
        await following.aclose()
    assert summary(seen) == ["2", "3", "apiserver stopped", "4"]
    assert seen[1].author.user == (AUTHOR.user if learnt else "")
    assert (clock.monotonic() > sql_log.AUTHOR_SECONDS) == (not learnt)
    await log.close()

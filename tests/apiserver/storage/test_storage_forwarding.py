"""Workers whose log one process writes know what it has written, also where they missed the news."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from storage_cases import CLOCK, create, pod, update, url_in
from until import until

from kubeskew.apiserver.storage.forwarding.forwarding_log import ForwardingLog
from kubeskew.apiserver.storage.forwarding.frames import Door
from kubeskew.apiserver.storage.forwarding.log_writer import LogWriter
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore


class Writing:
    """The process that writes, which can end and be started again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.door = Door()

    async def start(self) -> None:
        self.log = await SQLLog.open(self.url, CLOCK)
        self.writer = LogWriter(self.log, self.door)
        self.writer.start()

    async def end(self) -> None:
        await self.writer.close()
        await self.log.close()


@pytest.fixture
async def writing(tmp_path) -> AsyncIterator[Writing]:
    """A writer of a new log, and the door to it."""
    made = Writing(url_in(tmp_path))
    await made.start()
    yield made
    await made.end()
    made.door.close()


@asynccontextmanager
async def worker(writing: Writing) -> AsyncIterator[tuple[ForwardingLog, CachedStore]]:
    log = await ForwardingLog.open(writing.url, writing.door)
    async with await CachedStore.open(log, CLOCK) as store:
        yield log, store


async def test_all_workers_hear_of_a_commit(writing: Writing):
    """Another worker has what one writes, without reading it from the database, once a read is consistent."""
    async with worker(writing) as (_, first), worker(writing) as (log, second):
        for number in range(50):
            event = await first.write(create(pod(f"p{number}")))
            assert await second.refresh() == event.revision
            assert second.get(event.key) == first.get(event.key)
        assert log._window.since(log._window.start)[-1].revision == event.revision


async def test_what_another_server_writes_is_read(writing: Writing):
    """A commit past the writer is found in the database, and the writer's news are taken again after it."""
    other = await SQLLog.open(writing.url, CLOCK)
    async with worker(writing) as (_, first), worker(writing) as (_, second):
        for number in range(20):
            await first.write(create(pod(f"here-{number}")))
            await other.append(create(pod(f"there-{number}")))
            last = await first.write(create(pod(f"here-too-{number}")))
        for store in (first, second):
            assert await store.refresh() == last.revision
            assert len(store.list("pods").entries) == 60
        watch = second.watch("pods", None, None, 1)
        seen = []
        async for events in watch:
            seen += [event.revision for event in events]
            if seen[-1] == last.revision:
                break
        assert seen == [*range(2, last.revision + 1)]
    await other.close()


async def test_a_writer_that_ends_leaves_writes_unknown_and_the_next_one_takes_more(writing: Writing):
    """Writes under way fail as unknown; later ones wait for the next writer."""
    async with worker(writing) as (log, store):
        event = await store.write(create(pod()))
        under_way = asyncio.create_task(store.write(update(event)))
        await asyncio.sleep(0)
        for known in writing.writer._workers:
            known._transport.abort()  # as a killed process' socket
        with pytest.raises(StorageError, match="may be written or not"):
            await under_way
        await until(lambda: log.healthy)
        await writing.end()
        await until(lambda: not log.healthy)
        waiting = asyncio.create_task(store.write(create(pod("b"))))
        await writing.start()
        second = await waiting
        assert await store.refresh() == second.revision
        assert [entry.key.name for entry in store.list("pods").entries] == ["a", "b"]


async def test_one_worker_at_a_time_holds_a_name(writing: Writing):
    """A worker that asks for a name that is held waits, in turn; one that goes lets go."""
    order = []
    async with worker(writing) as (first, _), worker(writing) as (second, _):
        gone = await ForwardingLog.open(writing.url, writing.door)

        async def hold(log: ForwardingLog, name: str) -> None:
            async with log.exclusive("services"):
                order.append(name)
                await asyncio.sleep(0.01)
                order.append(name)

        holding = gone.exclusive("services")
        await holding.__aenter__()
        tasks = [asyncio.create_task(hold(*each)) for each in ((first, "a"), (second, "b"), (first, "c"))]
        async with asyncio.timeout(10):
            async with second.exclusive("other"):
                assert order == []
            await gone.close()
            await asyncio.gather(*tasks)
    assert sorted(order[::2]) == ["a", "b", "c"]
    assert order[::2] == order[1::2]


async def test_who_is_cancelled_while_it_waits_holds_nothing(writing: Writing):
    """A name goes to the next one that waits, not to one that has given up."""
    async with worker(writing) as (first, _), worker(writing) as (second, _):

        async def take(log: ForwardingLog) -> None:
            async with log.exclusive("services"):
                pass

        async with asyncio.timeout(10):
            async with first.exclusive("services"):
                waiting = [asyncio.create_task(take(log)) for log in (second, first, second)]
                await second.ask("whether the writer has heard of them")
                waiting[0].cancel()
                waiting[1].cancel()
                await asyncio.gather(*waiting[:2], return_exceptions=True)
            await waiting[2]
            await take(first)


async def test_questions_are_answered_by_the_others(writing: Writing):
    """A worker gets what each other one answers, and nothing of itself."""
    async with worker(writing) as (first, _), worker(writing) as (second, _), worker(writing) as (third, _):
        for number, log in enumerate((first, second, third), 1):
            log.answer(lambda question, number=number: (number, question))
        assert sorted(await second.ask("who")) == [(1, "who"), (3, "who")]

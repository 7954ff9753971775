"""Several servers on one database: one order, no gap, everybody sees everything."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from storage_cases import CLOCK, create, delete, every_event, pod, update, url_in

from kubeskew.apiserver.storage.interfaces import CompactedError, RevisionMismatchError
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import Event
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore


@pytest.fixture
async def pair(url) -> AsyncIterator[tuple[CachedStore, CachedStore]]:
    """Two stores over one log."""
    one, two = [await CachedStore.open(await SQLLog.open(url, CLOCK), CLOCK) for _ in range(2)]
    yield one, two
    await one.close()
    await two.close()


async def test_two_servers_may_create_the_database_together(url):
    """Whoever is first makes the schema, all can use it."""
    logs = await asyncio.gather(*(SQLLog.open(url, CLOCK) for _ in range(4)))
    events = await asyncio.gather(*(log.append(create(pod(f"p{i}"))) for i, log in enumerate(logs)))
    assert sorted(event.revision for event in events) == [2, 3, 4, 5]
    for log in logs:
        await log.close()


async def test_a_consistent_read_sees_the_other_servers_writes(pair):
    """After `refresh`, everything that was acknowledged anywhere before is there."""
    one, two = pair
    for i in range(20):
        event = await one.write(create(pod(f"p{i}")))
        assert await two.refresh() >= event.revision
        assert two.get(event.key) == one.get(event.key)


async def test_concurrent_writers_on_two_servers_leave_no_gap(pair):
    """Revisions are in a row, both memories equal the log, and watches of both agree."""
    one, two = pair
    watches = [store.watch("pods", None, None, 1) for store in pair]

    async def write(store: CachedStore, name: str) -> None:
        for i in range(10):
            event = await store.write(create(pod(f"{name}-{i}")))
            event = await store.write(update(event))
            if i % 2:
                await store.write(delete(event))

    await asyncio.gather(
        *(write(store, f"{name}{n}") for name, store in zip("ab", pair, strict=True) for n in range(8))
    )
    assert await one.refresh() == await two.refresh() == 401
    events = await every_event(one._log)
    assert [event.revision for event in events] == list(range(2, 402))
    assert one.list("pods") == two.list("pods")
    assert digest(one.list("pods").entries) == digest(fold(events).values())
    for watch in watches:
        seen: list[Event] = []
        while len(seen) < len(events):
            seen += await anext(watch)
        assert seen == events


async def test_of_two_servers_one_wins(pair):
    """The compare-and-swap holds across servers; the loser learns what is there."""
    event = await pair[0].write(create(pod()))
    results = await asyncio.gather(
        *(store.write(update(event, str(i).encode())) for i in range(5) for store in pair),
        return_exceptions=True,
    )
    winners = [result for result in results if isinstance(result, Event)]
    losers = [result for result in results if isinstance(result, RevisionMismatchError)]
    assert (len(winners), len(losers)) == (1, 9)
    assert {loser.current.value for loser in losers} == {winners[0].value}


async def test_a_watch_sees_the_other_servers_writes_by_itself(pair):
    """Without anybody asking, the tail brings them."""
    one, two = pair
    watch = two.watch("pods", None, None, two.revision)
    event = await one.write(create(pod()))
    assert list(await anext(watch)) == [event]


async def test_waiting_for_another_servers_revision(pair):
    """A client that read from one server can demand as much of the other."""
    one, two = pair
    waiting = asyncio.ensure_future(two.wait_for(2, 30))
    await one.write(create(pod()))
    await waiting
    assert two.get(pod()) is not None


async def test_a_server_that_slept_through_a_compaction_starts_over(pair):
    """A server that slept through a compaction ends its watches with CompactedError, and has the right
    memory.
    """
    one, two = pair
    for task in two._tasks:
        task.cancel()
    watch = two.watch("pods", None, None, two.revision)
    event = await one.write(create(pod()))
    for _ in range(5):
        event = await one.write(update(event))
    await one.write(create(pod("b")))
    await one.compact(5)
    await two.refresh()
    assert two.list("pods") == one.list("pods")
    assert two.horizon() == 5
    with pytest.raises(CompactedError):
        await anext(watch)


async def test_a_lone_server_peeks_without_a_hop(tmp_path):
    """A consistent read of a server that nobody overtook does not wait for another thread."""
    store = await CachedStore.open(await SQLLog.open(url_in(tmp_path), CLOCK), CLOCK)
    await store.write(create(pod()))
    reading = store.refresh()
    with pytest.raises(StopIteration) as returned:
        reading.send(None)
    assert returned.value.value == 2
    await store.close()

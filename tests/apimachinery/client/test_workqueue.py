"""Work queues, in virtual time."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.client.workqueue import ShutDown, WorkQueue
from kubeskew.apimachinery.metrics.series import QueueMeter, QueueMetrics

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.fixture
async def queue(clock):
    queue = WorkQueue(clock)
    yield queue
    queue.shut_down()


async def test_an_item_added_twice_is_worked_on_once(queue):
    """Items that wait already are not queued again."""
    queue.add("a")
    queue.add("a")
    queue.add("b")

    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_an_item_added_while_in_work_comes_back_after_done(queue):
    """No two workers ever hold the same item, and no addition is lost."""
    queue.add("a")
    item = await queue.get()
    queue.add("a")

    assert len(queue) == 0

    queue.done(item)

    assert await queue.get() == "a"


async def test_get_waits_for_an_item(queue, looptime):
    """A worker sleeps until something is added."""
    queue.add_after("a", 3)

    assert await queue.get() == "a"
    assert looptime == 3


async def test_the_earliest_of_several_delays_counts(queue, looptime):
    """Adding an item later again does not postpone it; adding it sooner does hurry it."""
    queue.add_after("a", 5)
    queue.add_after("a", 9)
    queue.add_after("a", 2)

    assert await queue.get() == "a"
    assert looptime == 2

    queue.done("a")

    assert queue.idle


async def test_the_delay_doubles_with_each_failure_until_forgotten(queue, looptime):
    """5 ms, 10 ms, 20 ms, then 5 ms again."""
    for _ in range(3):
        queue.add_rate_limited("a")
        queue.done(await queue.get())

    assert looptime == pytest.approx(0.035)
    assert queue.requeues("a") == 3

    queue.forget("a")
    queue.add_rate_limited("a")
    await queue.get()

    assert looptime == pytest.approx(0.040)


async def test_the_delay_is_capped(clock, looptime):
    """A long row of failures does not end in days of waiting."""
    queue = WorkQueue(clock, max_delay=2)
    for _ in range(100):
        queue.add_rate_limited("a")
        queue.done(await queue.get())

    assert looptime == pytest.approx(91 * 2 + 0.005 * (2**9 - 1), abs=0.01)


async def test_shut_down_hands_out_what_is_ready_and_then_ends_the_workers(queue):
    """Workers drain the queue; delayed items are dropped; nothing can be added."""
    queue.add("a")
    queue.add_after("later", 1)
    queue.shut_down()
    queue.add("b")

    assert await queue.get() == "a"
    with pytest.raises(ShutDown):
        await queue.get()


async def test_shut_down_wakes_waiting_workers(queue):
    """A worker that waits gets the item at once."""
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()

    with pytest.raises(ShutDown):
        await waiting


async def test_a_cancelled_worker_does_not_swallow_a_wake_up(queue):
    """The item goes to the other worker when the woken one is cancelled at once."""
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()

    assert await second == "a"


async def test_a_meter_counts_and_times(clock):
    """Under upstream's names, by the queue's name."""
    registry = CollectorRegistry()
    queue = WorkQueue(clock, meter=QueueMeter(QueueMetrics(registry, clock), "resource_claim"))

    def value(name):
        return registry.get_sample_value(f"workqueue_{name}", {"name": "resource_claim"})

    queue.add("a")
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    assert (value("adds_total"), value("depth")) == (2, 2)
    item = await queue.get()
    await asyncio.sleep(3)
    numbers = ("depth", "unfinished_work_seconds", "longest_running_processor_seconds")
    assert [value(name) for name in numbers] == [1, 3, 3]
    queue.add_rate_limited(item)
    queue.done(item)
    assert [value(name) for name in (*numbers, "retries_total")] == [1, 0, 0, 1]
    assert value("queue_duration_seconds_sum") == 2
    assert value("work_duration_seconds_sum") == 3
    queue.shut_down()


async def test_a_queue_without_items_has_series_of_zeros(clock):
    """Whoever scrapes a controller sees all its queues, as with upstream's."""
    registry = CollectorRegistry()
    QueueMeter(QueueMetrics(registry, clock), "job")

    names = ("adds_total", "retries_total", "depth", "work_duration_seconds_count")
    assert [registry.get_sample_value(f"workqueue_{name}", {"name": "job"}) for name in names] == [0, 0, 0, 0]


@pytest.mark.parametrize("waiting", [0, 5])
async def test_as_many_work_as_there_are_items(queue, waiting):
    """Items are worked on at the same time by up to so many workers, also those that were there before."""
    at_once, most, done = 0, 0, []

    async def process(item):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1)
        at_once -= 1
        done.append(item)

    for item in range(waiting):
        queue.add(item)
    working = asyncio.create_task(queue.work(process, workers=3))
    await asyncio.sleep(0.5)
    for item in range(waiting, 5):
        queue.add(item)
    await asyncio.sleep(2.1)
    queue.shut_down()
    await working

    assert (most, sorted(done)) == (3, [0, 1, 2, 3, 4])


async def test_all_workers_end_with_the_work(queue):
    """Whoever cancels the work has no item worked on any more."""
    done = []

    async def process(item):
        await asyncio.sleep(1)
        done.append(item)

    working = asyncio.create_task(queue.work(process, workers=2))
    await asyncio.sleep(0.5)
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(0.5)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await asyncio.sleep(5)

    assert (done, queue.idle) == ([], True)


async def test_of_queues_of_one_name_the_newest_is_reported(clock):
    """A controller that leads again has another queue; the one of its former term does not count."""
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry, clock)
    QueueMeter(metrics, "job")
    meter = QueueMeter(metrics, "job")
    meter.added("a")

    assert registry.get_sample_value("workqueue_depth", {"name": "job"}) == 1

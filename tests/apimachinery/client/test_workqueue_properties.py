"""Work queues under random use, in virtual time: no addition is lost, no item is worked on twice at once."""

import asyncio

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_clock import LoopClock

from kubeskew.apimachinery.client.workqueue import WorkQueue

_item = st.sampled_from("abc")
_seconds = st.sampled_from([0.0, 0.5, 1.0, 1.5, 4.0])
_operation = st.one_of(
    st.tuples(st.just("add"), _item, st.just(0.0)),
    st.tuples(st.just("add_after"), _item, _seconds),
    st.tuples(st.just("add_rate_limited"), _item, st.just(0.0)),
)
_script = st.lists(st.tuples(_operation, _seconds), max_size=15)
_LATEST = 60.0  # seconds until everything is over


class Workers:
    """Notes which items workers begin and when; each takes a second."""

    def __init__(self, queue, seconds):
        self._queue, self._seconds = queue, seconds
        self.begun, self.at_work = [], set()

    async def work(self):
        loop = asyncio.get_running_loop()
        while True:
            item = await self._queue.get()
            assert item not in self.at_work
            self.at_work.add(item)
            self.begun.append((item, loop.time()))
            await asyncio.sleep(self._seconds)
            self.at_work.discard(item)
            self._queue.done(item)


async def play(script, workers, seconds):
    queue, loop = WorkQueue(LoopClock()), asyncio.get_running_loop()
    crew = Workers(queue, seconds)
    tasks = [asyncio.create_task(crew.work()) for _ in range(workers)]
    due = []  # (item, asked at, to begin by, if a worker is free)
    for (what, item, delay), pause in script:
        if what == "add":
            queue.add(item)
        elif what == "add_after":
            queue.add_after(item, delay)
        else:
            delay = 0.005 * 2 ** queue.requeues(item)
            queue.add_rate_limited(item)
        due.append((item, loop.time(), loop.time() + delay))
        await asyncio.sleep(pause)
    await asyncio.sleep(_LATEST)
    assert queue.idle
    assert not [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return crew.begun, due


@settings(max_examples=100, deadline=None, derandomize=True)
@given(_script, st.integers(1, 3), st.sampled_from([0.0, 1.0]))
def test_every_addition_is_worked_on(script, workers, seconds):
    """After each addition the item is begun, by the time asked for where nothing holds up the workers."""
    with asyncio.Runner(loop_factory=_virtual_loop) as runner:
        begun, due = runner.run(play(script, workers, seconds))

    held_up = seconds * (len(script) + 1)
    for item, asked, latest in due:
        assert [when for one, when in begun if one == item and asked <= when <= latest + held_up + 0.01]


def _virtual_loop():
    loop = looptime.patch_event_loop(asyncio.new_event_loop())
    loop.setup_looptime(end=100_000)
    return loop

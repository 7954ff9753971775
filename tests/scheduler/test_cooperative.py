"""Long work that shares the event loop."""

import asyncio
from contextvars import ContextVar
from itertools import count
from types import SimpleNamespace

from kubeskew.scheduler.cooperative import give_way, in_turns


def _ticking():
    """A clock that is 10 ms later whenever somebody looks."""
    ticks = count()
    return SimpleNamespace(monotonic=lambda: next(ticks) / 100)


async def test_long_work_lets_others_have_their_turn():
    """A long computation pauses every 50 ms for other tasks, and returns its result in the end."""
    clock, story = _ticking(), []

    async def others():
        while True:
            story.append("others")
            await asyncio.sleep(0)

    def work():
        for _ in range(12):
            story.append("work")
            give_way(clock.monotonic())
        return "done"

    other = asyncio.create_task(others())
    assert await in_turns(clock, work) == "done"
    other.cancel()

    assert story == [*["work"] * 5, "others", *["work"] * 5, "others", *["work"] * 2]


async def test_short_work_is_not_interrupted():
    """Work that is over soon has no turn of the loop in between; elsewhere, giving way changes nothing."""
    other = asyncio.create_task(asyncio.sleep(0))

    assert await in_turns(_ticking(), lambda: give_way(0.0) or 1) == 1
    give_way(1000.0)

    assert not other.done()
    await other


async def test_long_work_sees_context_variables():
    """The computation has its own stack, and sees what is set where it is awaited, also after a pause."""
    variable = ContextVar("variable", default="unset")

    def work():
        before = variable.get()
        give_way(1000.0)
        return before, variable.get()

    variable.set("set")
    assert await in_turns(_ticking(), work) == ("set", "set")


async def test_errors_come_out():
    """An exception in the computation, in its first turn or later, reaches the task that awaits it."""

    def work():
        give_way(1000.0)
        raise ValueError("late")

    results = await asyncio.gather(in_turns(_ticking(), work), return_exceptions=True)

    assert [str(result) for result in results] == ["late"]

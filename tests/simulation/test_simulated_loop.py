"""The event loop of simulations: its time, its order, and what is left of processes that ended."""

import asyncio
import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeskew.simulation.loop import BrokenOffError, DeadlockError, SimulatedLoop
from kubeskew.simulation.processes import Process


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    made = SimulatedLoop()
    yield made
    made.finish()


def process(name: str = "a") -> Process:
    return Process(1, name, Path("/dev/null"))


def test_time_moves_to_the_next_timer(loop: SimulatedLoop):
    """A day of sleep takes no time, and the loop's clock says that a day has passed."""

    async def sleep() -> float:
        began = loop.time()
        await asyncio.sleep(86_400)
        return loop.time() - began

    assert loop.run_until_complete(sleep()) == pytest.approx(86_400, abs=0.001)


def test_timers_fire_in_order_of_time_and_then_of_being_set(loop: SimulatedLoop):
    """Of two timers of one moment the one that was set first fires first."""
    seen: list[str] = []

    async def wait() -> None:
        for name, seconds in (("b", 2.0), ("a", 1.0), ("c", 2.0)):
            loop.call_later(seconds, seen.append, name)
        await asyncio.sleep(3)

    loop.run_until_complete(wait())
    assert seen == ["a", "b", "c"]


def test_a_wait_that_nothing_can_end_is_an_error(loop: SimulatedLoop):
    """The loop raises in the place of hanging if nothing is left to do and no timer runs."""
    with pytest.raises(DeadlockError):
        loop.run_until_complete(loop.create_future())


def test_a_loop_that_never_waits_takes_time(loop: SimulatedLoop):
    """A few turns take next to none; tasks that never wait come to a timer in thousands of turns."""

    async def turns_until(end: asyncio.Event) -> int:
        turns = 0
        while not end.is_set():
            await asyncio.sleep(0)
            turns += 1
        return turns

    async def work() -> tuple[float, int]:
        for _ in range(1000):
            await asyncio.sleep(0)
        short, end = loop.time(), asyncio.Event()
        loop.call_later(5.0, end.set)
        return short, await turns_until(end)

    short, turns = loop.run_until_complete(work())
    assert short < 0.01
    assert 5000 < turns < 20_000


def test_what_never_ends_is_broken_off(loop: SimulatedLoop):
    """A callback that calls itself again and again ends when whoever runs it has no more time."""
    rounds = iter(range(100))
    loop.over = lambda: next(rounds, None) is None

    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(BrokenOffError):
        loop.run_until_complete(loop.create_future())


def test_a_task_that_waits_in_its_last_lines_ends_with_the_loop():
    """A cancelled task that waits again, for what never comes, does not stay for the collector of garbage."""
    loop = SimulatedLoop()

    async def wait() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(1e9)

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(wait())
        await asyncio.sleep(1)
        return task

    task = loop.run_until_complete(begin())
    loop.finish()
    assert task.cancelled()


def test_nothing_of_a_process_runs_after_its_end(loop: SimulatedLoop):
    """Neither its timers, nor what waits in it for others, nor its `finally` blocks."""
    seen: list[str] = []
    killed = process()

    async def work(event: asyncio.Event) -> None:
        loop.call_later(2, seen.append, "timer")
        try:
            await event.wait()
            seen.append("woken")
        finally:
            seen.append("finally")

    async def main() -> None:
        event = asyncio.Event()
        killed.spawn(work(event))
        await asyncio.sleep(1)
        killed.send(signal.SIGKILL)
        event.set()
        await asyncio.sleep(5)

    loop.run_until_complete(main())
    gc.collect()
    assert seen == []


def test_signals_call_the_handlers_of_their_process_alone(loop: SimulatedLoop):
    """A handler is added by the process whose code adds it; SIGTERM without a handler is the end."""
    one, other = process("one"), process("other")
    seen: list[int] = []

    async def listen() -> None:
        loop.add_signal_handler(signal.SIGTERM, seen.append, 1)

    async def main() -> None:
        await one.spawn(listen())
        for each in (one, other):
            each.send(signal.SIGTERM)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert seen == [1]
    assert (one.alive, other.alive) == (True, False)


def test_sets_of_tasks_have_the_order_of_their_making(loop: SimulatedLoop):
    """Code that follows a set of tasks, as asyncio's own does, has the same order in every run."""

    async def nothing() -> None:
        return

    async def main() -> list[str]:
        tasks = {loop.create_task(nothing(), name=str(number)) for number in range(50)}
        await asyncio.wait(tasks)
        return [task.get_name() for task in tasks]

    assert loop.run_until_complete(main()) == [str(number) for number in range(50)]


def test_work_for_threads_is_done_at_once(loop: SimulatedLoop):
    """There are no threads: a call in one returns, or raises, what the function does."""

    async def main() -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(lambda: 5)

    assert loop.run_until_complete(main()) == 5

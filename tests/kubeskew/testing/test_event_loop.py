"""The event loop next to the tests of others."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from until import until

from kubeskew.testing.event_loop import EventLoop


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()
    assert "kubeskew" not in {thread.name for thread in threading.enumerate()}


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def failing() -> None:
    raise LookupError("as it was meant")


async def failing_together() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(failing())


def test_a_call_returns_and_raises_what_its_coroutine_does(loop: EventLoop):
    """The caller gets the result of a coroutine, or its failure; of a group, the first."""
    assert loop.run(doubled(21)) == 42
    with pytest.raises(LookupError, match="as it was meant"):
        loop.run(failing())
    with pytest.raises(LookupError, match="as it was meant"):
        loop.run(failing_together())


async def test_a_call_works_inside_of_another_loop(loop: EventLoop):
    """A test that runs in an event loop of its own may call, too."""
    assert loop.run(doubled(1)) == 2
    assert await asyncio.to_thread(loop.run, doubled(2)) == 4


async def main_thread_waits() -> bool:
    """Returns whether the main thread waits for an answer, which a signal interrupts.

    A thread that waits for the interpreter's lock sleeps, too, but not for 50 ms while nobody holds it; it
    would look at the signal only after the wait for the answer that comes next.
    """
    if sys.platform != "linux":
        return True
    before = main_thread_status()
    await asyncio.sleep(0.05)
    return before[0] == "S" and main_thread_status() == before


def main_thread_status() -> tuple[str, str]:
    """Returns the state of the main thread, and how often it has gone to sleep."""
    status = Path(f"/proc/self/task/{threading.main_thread().native_id}/status").read_text()
    values = dict(line.split(":\t", 1) for line in status.splitlines())
    return values["State"][0], values["voluntary_ctxt_switches"]


def test_a_caller_that_is_interrupted_leaves_nothing_behind(loop: EventLoop):
    """Ctrl-C cancels what the caller waits for, and returns when that has ended."""
    ends: list[str] = []

    async def long() -> None:
        await until(main_thread_waits, 60, every=0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("ended")

    with pytest.raises(KeyboardInterrupt):
        loop.run(long())
    assert ends == ["ended"]

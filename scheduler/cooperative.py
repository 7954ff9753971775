"""Runs long work in turns with everything else on the event loop.

A scheduling cycle is ordinary, synchronous code, and mostly over within a millisecond. But a search for
devices may take seconds. Upstream it has a thread; here it pauses where it is, so that bindings, informers
and the renewal of the lease go on, and is resumed later.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

from greenlet import getcurrent, greenlet

from kubeskew.apimachinery.clock import Clock

T = TypeVar("T")

TURN_SECONDS = 0.05


async def in_turns(clock: Clock, work: Callable[[], T]) -> T:
    """Runs `work` on a stack of its own, where it may `give_way`.

    It sees the context variables that are set here.
    """
    stack = greenlet(contextvars.copy_context().run)
    stack.turn_began = clock.monotonic()
    result: T = stack.switch(work)
    while not stack.dead:
        await asyncio.sleep(0)
        stack.turn_began = clock.monotonic()
        result = stack.switch()
    return result


def give_way(now: float) -> None:
    """Lets other tasks run if this work has run for long; `now` is monotonic."""
    if now - getattr(getcurrent(), "turn_began", now) >= TURN_SECONDS:
        pause()


def pause() -> None:
    """Lets other tasks run once; does nothing outside of `in_turns`."""
    stack = getcurrent()
    if hasattr(stack, "turn_began"):
        stack.parent.switch()

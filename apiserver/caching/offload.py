"""Runs long work beside the event loop, so that other requests are served meanwhile; keeps nothing."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

from kubeskew.apimachinery.cel.allowance import AllowanceSpentError, limited_to
from kubeskew.apiserver.caching.gc_control import LARGE, collection_paused

_Made = TypeVar("_Made")


async def offload(size: int, work: Callable[[], _Made]) -> _Made:
    """Returns the result of `work`, done in a thread if `size`, that of the objects in bytes, is above
    LARGE (64 KiB).

    In a thread `work` may change what is its request's alone, and read what is replaced but never changed.
    """
    if size <= LARGE:
        return work()
    with collection_paused(size):
        return await asyncio.to_thread(work)


_ALLOWANCE = 50_000  # units of CEL's cost: some ten milliseconds


async def offload_if_costly(work: Callable[[], _Made]) -> _Made:
    """Returns the result of `work`, which evaluates expressions and changes nothing.

    It begins on the event loop; what takes long is begun again in a thread.
    """
    try:
        with limited_to(_ALLOWANCE):
            return work()
    except AllowanceSpentError:
        return await asyncio.to_thread(work)


_WAIT_SECONDS = 10.0
_TURN_SECONDS = 0.01


def on_event_loop(loop: asyncio.AbstractEventLoop, home: int, work: Callable[[], _Made]) -> _Made:
    """Runs `work` on the event loop of thread `home`, from any thread, and returns its result."""
    if threading.get_ident() == home:
        return work()
    found: concurrent.futures.Future[_Made] = concurrent.futures.Future()

    def run() -> None:
        try:
            found.set_result(work())
        except Exception as error:
            found.set_exception(error)

    loop.call_soon_threadsafe(run)
    return found.result(_WAIT_SECONDS)


class TimeSlice:
    """Measures a short time on the event loop, after which a long loop lets other tasks run."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._end = self._now() + _TURN_SECONDS

    @property
    def is_over(self) -> bool:
        return self._now() > self._end

    async def give_way(self) -> None:
        """Lets other tasks run; then another slice begins."""
        await asyncio.sleep(0)
        self._end = self._now() + _TURN_SECONDS

"""Runs long work off the event loop, and pauses Python's garbage collector while large objects are alive.

The collector looks at everything that is alive, half a second for the hundreds of thousands of values of a
body of 3 MiB, and holds up every thread meanwhile. So it rests while large requests are under way and looks
after them: it counts objects, not bytes, and errors refer to their frames, these to bodies of megabytes.
"""

import asyncio
import concurrent.futures
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kubeskew.apimachinery.cel.allowance import AllowanceSpentError, limited_to

LARGE = 64 * 1024  # bytes of JSON; checking and converting so many takes some ten milliseconds
_COLLECTED_AFTER = 32 << 20  # bytes of large objects worked on, at a moment without any
_COLLECTED_EVEN_SO = 128 << 20  # the same under load, when there is no such moment
_Made = TypeVar("_Made")


class _LargeObjects:
    """Counts the large objects of this process: its collector is one, so their count is one as well."""

    def __init__(self) -> None:
        self.under_way = 0
        self.bytes = 0  # of those since the last collection


_large = _LargeObjects()


@contextmanager
def collection_paused(size: int) -> Iterator[None]:
    """Pauses the garbage collector while an object of `size` bytes is worked on, if that is large.

    Pauses may overlap; the last one to end lets the collector go on. They are entered and left on one thread,
    the event loop's, and left when nothing refers to the object any more.
    """
    if size <= LARGE:
        yield
        return
    _large.under_way += 1
    gc.disable()
    try:
        yield
    finally:
        _large.under_way -= 1
        _large.bytes += size
        if not _large.under_way:
            gc.enable()
        if _large.bytes > (_COLLECTED_EVEN_SO if _large.under_way else _COLLECTED_AFTER):
            _large.bytes = 0
            gc.collect(1)


async def offload(size: int, work: Callable[[], _Made]) -> _Made:
    """Runs `work` in a thread if `size`, that of the objects in bytes, is above LARGE (64 KiB).

    In a thread `work` may change what is its request's alone, and read what is replaced but never changed.
    """
    if size <= LARGE:
        return work()
    with collection_paused(size):
        return await asyncio.to_thread(work)


_ALLOWANCE = 50_000  # units of CEL's cost: some ten milliseconds


async def offload_if_costly(work: Callable[[], _Made]) -> _Made:
    """Runs `work`, which evaluates expressions and changes nothing.

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
    """Runs `work` on the event loop of thread `home`, from any thread; raises TimeoutError after 10 s."""
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
        await asyncio.sleep(0)
        self._end = self._now() + _TURN_SECONDS

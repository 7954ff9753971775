"""Holds up Python's garbage collector while large objects are alive; keeps nothing but two counts.

The collector looks at everything that is alive, half a second for the hundreds of thousands of values of
a body of 3 MiB, and holds up every thread meanwhile. So it rests while large requests are under way and looks
after them: it counts objects, not bytes, and errors refer to their frames, these to bodies of megabytes.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

LARGE = 64 * 1024  # bytes of JSON; checking and converting so many takes some ten milliseconds
_COLLECTED_AFTER = 32 << 20  # bytes of large objects worked on, at a moment without any
_COLLECTED_EVEN_SO = 128 << 20  # the same under load, when there is no such moment


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

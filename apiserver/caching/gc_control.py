"""Decides when the garbage collector may look at large objects.

It looks at everything that is alive, some half a second for the hundreds of thousands of values of a body of
3 MiB, and holds up every thread meanwhile. So it rests while large requests are under way, and looks after
them: it counts objects, not bytes, and errors refer to their frames, these to bodies of megabytes.
"""

import gc

LARGE = 64 * 1024  # bytes of JSON; checking and converting so many takes some ten milliseconds
_COLLECTED_AFTER = 32 << 20  # bytes of large objects worked on, at a moment without any
_COLLECTED_EVEN_SO = 128 << 20  # the same under load, when there is no such moment


class Garbage:
    """Counts what is under way, on one thread: `begin` before something large, `end` after it."""

    def __init__(self) -> None:
        self._under_way = 0
        self._bytes = 0

    def begin(self, size: int) -> None:
        """Something of `size` bytes begins."""
        if size > LARGE:
            self._under_way += 1
            gc.disable()

    def end(self, size: int) -> None:
        """Ends what began with the same `size`; nothing refers to it any more."""
        if size <= LARGE:
            return
        self._under_way -= 1
        self._bytes += size
        if not self._under_way:
            gc.enable()
        if self._bytes > (_COLLECTED_EVEN_SO if self._under_way else _COLLECTED_AFTER):
            self._bytes = 0
            gc.collect(1)


garbage = Garbage()

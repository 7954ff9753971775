"""Spares the garbage collector what was there before a simulation."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from kubeskew.conformance.dealing.freezing import frozen


@contextmanager
def collecting_in_turns() -> Iterator[None]:
    """Leaves the collection of garbage to the loop, which does it after so many callbacks.

    An asynchronous generator that is collected is closed by a task. So when garbage is collected decides what
    runs when, and it must not depend on what else the interpreter has done. What the simulation has left is
    collected when it has ended, so that the next one hears nothing of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        with frozen():
            try:
                yield
            finally:
                gc.collect()
    finally:
        if enabled:
            gc.enable()

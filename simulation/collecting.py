"""Spares the garbage collector what was there before a simulation."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen() -> Iterator[None]:
    """Exempts what there is from garbage collection, so that it is not looked through each time.

    It stays exempt if something was before: the interpreter cannot give back a part. What is garbage then is
    collected first, for it would stay, too.
    """
    stays = gc.get_freeze_count() > 0
    if stays:
        gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not stays:
            gc.unfreeze()


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

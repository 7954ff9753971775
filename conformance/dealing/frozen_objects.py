"""Exempts objects from garbage collection that were there before work began."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen() -> Iterator[None]:
    """Objects that exist now are exempt from garbage collection, so that it does not look through them each
    time.

    It stays exempt if something was before: the interpreter cannot give back a part. Garbage is collected
    first, for it would stay, too: that since the last whole collection, which a simulation ends with.
    """
    stays = gc.get_freeze_count() > 0
    if stays:
        gc.collect(1)
    gc.freeze()
    try:
        yield
    finally:
        if not stays:
            gc.unfreeze()

"""Spares the garbage collector what was there before work began."""

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

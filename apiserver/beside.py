"""Long work done beside the event loop, so that other requests are served meanwhile."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_LARGE = 64 * 1024  # bytes of JSON; checking and converting so many takes some ten milliseconds
_Made = TypeVar("_Made")


async def beside(size: int, work: Callable[[], _Made]) -> _Made:
    """What `work` gives, done in a thread if it is about more than a few bytes; `size` is of the objects.

    In a thread `work` may change what is its request's alone, and read what is replaced but never changed.
    """
    return await asyncio.to_thread(work) if size > _LARGE else work()

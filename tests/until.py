"""Waiting for what nothing reports."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(check: Callable[[], Any], seconds: float = 30, *, every: float = 0.01) -> Any:
    """Calls `check` (async or not) until it returns something true, and returns that.

    Raises TimeoutError after `seconds`.
    """
    async with asyncio.timeout(seconds):
        while True:
            found = check()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(every)

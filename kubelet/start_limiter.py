"""Lets a few nodes of a process at a time do what all of them do at their start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class StartLimiter:
    """Gives slots to `at_a_time` tasks, each for at most so many `seconds`: a stuck one holds up nobody."""

    def __init__(self, at_a_time: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._seconds = seconds

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot. Work that takes longer than that goes on without it."""
        await self._free.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._seconds, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()

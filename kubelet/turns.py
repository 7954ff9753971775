"""Taking turns: what all nodes of a process do at their start, only a few of them do at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """`at_a_time` have a turn, each for so many `seconds` at most: nobody waits for one that gets nowhere."""

    def __init__(self, at_a_time: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._seconds = seconds

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. What takes longer than a turn goes on without it."""
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

"""Runs the duties of a server beside answering requests: one task per duty, from bootstrap to the end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

log = logging.getLogger(__name__)

Duty = Callable[[], Awaitable[None]]
PAUSE_SECONDS = 1.0  # before a failed duty is started again


class Background:
    """Duties that run for as long as the server does; each ends by being cancelled."""

    def __init__(self) -> None:
        self._duties: list[tuple[str, Duty]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, name: str, duty: Duty) -> None:
        """Have `duty` run once the server starts. It begins again after a failure, which is logged."""
        self._duties.append((name, duty))

    def start(self) -> None:
        self._tasks = [asyncio.create_task(_run(*duty), name=duty[0]) for duty in self._duties]

    async def stop(self) -> None:
        """Cancel every duty and wait for its end; idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _run(name: str, duty: Duty) -> None:
    """Do a duty until it is done; one that fails begins again, after a pause."""
    while True:
        try:
            return await duty()
        except Exception:
            log.exception("%s has failed, and begins again", name)
        await asyncio.sleep(PAUSE_SECONDS)

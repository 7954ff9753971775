"""Duties of a server apart from answers to requests: one task per duty, and what wakes it.

A write that was refused (the database is full, a webhook does not answer) comes with no change that would
wake its duty: the duty wakes again after a while.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from kubeskew.apimachinery.metrics.series import QueueMeter

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 30.0
log = logging.getLogger(__name__)

Duty = Callable[[], Awaitable[None]]
PAUSE_SECONDS = 1.0  # before a failed duty is started again


class Named(Protocol):
    """Names an object. Keys of the store fit it."""

    @property
    def name(self) -> str: ...


class Wakeups:
    """Wakes one duty, which calls `begin` before it looks, `fail` for what went wrong, and then `wait`.

    `meter` counts the changed objects as items of upstream's queue for the same work.
    """

    def __init__(self, meter: QueueMeter | None = None) -> None:
        self._changed = asyncio.Event()
        self._meter = meter
        self._names: dict[str, None] = {}  # of objects that have changed since the last `begin`, in order
        self._looked_at: dict[str, None] = {}
        self.failed = False  # since the last `begin`
        self._retry_seconds = FIRST_RETRY_SECONDS

    def wake(self, *_: object) -> None:
        """Takes any arguments, so that it fits every callback."""
        self._changed.set()

    def changed(self, key: Named) -> None:
        """An object that waits for a look already is no new item of the queue."""
        if self._meter is not None and key.name not in self._names:
            self._meter.added(key.name)
            self._names[key.name] = None
        self._changed.set()

    def fail(self) -> None:
        """Asks for another look after a while, for work that was not done and that no change will wake the
        duty for.
        """
        self.failed = True
        if self._meter is not None:
            self._meter.postponed()

    def begin(self) -> None:
        """Changes from now on wake the next look."""
        self._changed.clear()
        self.failed = False
        self._looked_at, self._names = self._names, {}
        for name in self._looked_at:
            if self._meter is not None:
                self._meter.begun(name)

    async def wait(self, seconds: float | None = None) -> None:
        """Ends when something has changed, after `seconds`, or sooner after a failure: 1 s, doubled up to 30
        s.
        """
        for name in self._looked_at:
            if self._meter is not None:
                self._meter.ended(name)
        self._looked_at = {}
        if self.failed:
            seconds = min(self._retry_seconds, seconds or MAX_RETRY_SECONDS)
            self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)
        else:
            self._retry_seconds = FIRST_RETRY_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


class Background:
    """Runs duties for as long as the server does; each ends by being cancelled."""

    def __init__(self) -> None:
        self._duties: list[tuple[str, Duty]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, name: str, duty: Duty) -> None:
        """`duty` runs once the server starts. It begins again after a failure, which is logged."""
        self._duties.append((name, duty))

    def start(self) -> None:
        self._tasks = [asyncio.create_task(_run(*duty), name=duty[0]) for duty in self._duties]

    async def stop(self) -> None:
        """Cancels each duty and waits for its end; idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _run(name: str, duty: Duty) -> None:
    """A duty that fails begins again after PAUSE_SECONDS."""
    while True:
        try:
            return await duty()
        except Exception:
            log.exception("%s has failed, and begins again", name)
        await asyncio.sleep(PAUSE_SECONDS)

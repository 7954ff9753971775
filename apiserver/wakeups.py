"""Wakes a duty of the server when something has changed, or when it failed and a while has passed.

A write that was refused (the database is full, a webhook does not answer) comes with no change that would
wake anybody up: without this it would not be tried again before the server starts anew.
"""

import asyncio
from typing import Protocol

from kubeskew.apimachinery.metrics.queues import QueueMeter

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 30.0


class Named(Protocol):
    """Names an object, as keys of the store do."""

    @property
    def name(self) -> str: ...


class Wakeups:
    """Wakes one duty, which calls `begin` before it looks, `fail` for what went wrong, and then `wait`.

    `meter` counts the changed objects as upstream's queue of the same work does, whose items they are.
    """

    def __init__(self, meter: QueueMeter | None = None) -> None:
        self._changed = asyncio.Event()
        self._meter = meter
        self._names: list[str] = []  # of objects that have changed since the last `begin`
        self._looked_at: list[str] = []
        self.failed = False  # since the last `begin`
        self._retry_seconds = FIRST_RETRY_SECONDS

    def wake(self, *_: object) -> None:
        """Notes that something has changed."""
        self._changed.set()

    def changed(self, key: Named) -> None:
        """Notes that an object has changed."""
        if self._meter is not None:
            self._meter.added(key.name)
            if key.name not in self._names:
                self._names.append(key.name)
        self._changed.set()

    def fail(self) -> None:
        """Notes that something was not done, and no change will tell when it can be."""
        self.failed = True
        if self._meter is not None:
            self._meter.postponed()

    def begin(self) -> None:
        """Begins a look: changes from now on wake the next one."""
        self._changed.clear()
        self.failed = False
        self._looked_at, self._names = self._names, []
        for name in self._looked_at:
            if self._meter is not None:
                self._meter.begun(name)

    async def wait(self, seconds: float | None = None) -> None:
        """Return when something has changed; after so many `seconds`, or sooner after a failure."""
        for name in self._looked_at:
            if self._meter is not None:
                self._meter.ended(name)
        self._looked_at = []
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

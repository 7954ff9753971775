"""Holds the transport of one connection and its flow, both ways, for readers and writers."""

import asyncio
import math
from dataclasses import dataclass


@dataclass(slots=True)
class Limits:
    """Holds the limits of every connection of a server, and the `Date` header of the moment."""

    head_seconds: float = 32.0  # until a request's head is there; as upstream (ReadHeaderTimeout)
    idle_seconds: float = 90.0  # between two requests; as upstream (IdleTimeout)
    stall_seconds: float = 30.0  # a client that takes nothing of an answer for so long is let go
    date: bytes = b""


class ConnectionTransport:
    """Holds one connection's transport. Past `deadline` (loop time) it counts as dead."""

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self.raw = transport
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.deadline = math.inf
        self.finishing = False  # no request is taken any more; the answer under way is the last
        self.broken = False  # the client is gone
        self._writable: asyncio.Future[None] | None = None
        self._holds = 0

    def allow(self, seconds: float) -> None:
        """Lets what comes next take so long."""
        self.deadline = self.loop.time() + seconds

    def hold(self) -> None:
        """Lets the client wait, until `release` is called as often."""
        self._holds += 1
        if self._holds == 1:
            self.raw.pause_reading()

    def release(self) -> None:
        self._holds -= 1
        if self._holds == 0 and not self.broken:
            self.raw.resume_reading()

    def stop_writing(self) -> None:
        """Notes that the client lags: `drain` waits until `go_on_writing`."""
        self._writable = self.loop.create_future()

    def go_on_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    async def drain(self) -> None:
        """Waits while the client is slow to take what it gets. Raises ConnectionResetError."""
        if self._writable is not None:
            self.allow(self.limits.stall_seconds)
            await self._writable
            self.deadline = math.inf
        if self.broken:
            raise ConnectionResetError("the client is gone")

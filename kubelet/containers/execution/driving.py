"""Runs commands in real time: `exec` waits while its command sleeps or reads."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.execution.waiting import Receive, Request, Sleep

_FOREVER = 1e9


async def drive(
    program: Coroutine[Any, Any, int],
    clock: Clock,
    receive: Callable[[], Awaitable[bytes]],
    flush: Callable[[], Awaitable[None]],
) -> int:
    """Returns the program's exit code.

    `flush` sends what it has written so far; `receive` gives its input.
    """
    value: bytes | None = None
    reader = _Reader(receive, clock)
    try:
        while True:
            try:
                request: Request = program.send(value)
            except StopIteration as done:
                code: int = done.value
                return code
            finally:
                await flush()
            value = None
            if isinstance(request, Sleep):
                await clock.sleep(min(request.seconds, _FOREVER))
            elif isinstance(request, Receive):
                value = await reader.read(request.seconds)
    finally:
        program.close()
        reader.close()


class _Reader:
    """Reads input for a limited time; what comes later is kept for the next read."""

    def __init__(self, receive: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._receive = receive
        self._clock = clock
        self._reading: asyncio.Future[bytes] | None = None

    async def read(self, seconds: float) -> bytes | None:
        if self._reading is None and seconds >= _FOREVER:
            return await self._receive()
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._receive())
        if seconds < _FOREVER:
            waiting: asyncio.Future[None] = asyncio.ensure_future(self._clock.sleep(seconds))
            both: set[asyncio.Future[Any]] = {self._reading, waiting}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if not self._reading.done():
                return None
        reading, self._reading = self._reading, None
        return await reading

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

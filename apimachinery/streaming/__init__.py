"""Streams bytes in both directions over one HTTP connection, after its head.

A codec (WebSocket here, SPDY/3.1 in the kubelet) works over a `Pipe`; none knows a socket.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class Pipe(Protocol):
    """A connection after its HTTP head, with bytes in both directions."""

    async def read(self) -> bytes:
        """The next bytes as they come; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Sends bytes; waits while the other side is slow. Raises ConnectionError when it is gone."""
        ...


async def until_one_ends(*directions: Coroutine[Any, Any, None]) -> None:
    """Runs coroutines together until one ends, and cancels the others."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PipeReader:
    """Reads a pipe by numbers of bytes."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._buffer = bytearray()

    async def take(self, count: int) -> bytes | None:
        """None if the pipe ends before `count` bytes."""
        while len(self._buffer) < count:
            data = await self._pipe.read()
            if not data:
                return None
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

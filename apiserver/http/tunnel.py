"""Carries bytes over a connection after its upgrade: `request.Tunnel` over the transport."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

_BUFFERED_MAX = 1 << 18


class ConnectionTunnel:
    """Carries bytes both ways; who reads slowly makes the client wait."""

    def __init__(
        self,
        transport: asyncio.Transport,
        hold: Callable[[], None],
        release: Callable[[], None],
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._hold = hold
        self._release = release
        self._drain = drain
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _BUFFERED_MAX and not self._paused:
            self._paused = True
            self._hold()
        self._wake()

    def end(self) -> None:
        """Notes that the client has ended its side."""
        self._ended = True
        self._wake()

    async def read(self) -> bytes:
        while not self._chunks and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        found = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._release()
        return found

    async def write(self, data: bytes) -> None:
        if self._ended:
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._drain()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

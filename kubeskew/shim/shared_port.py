"""A port that all API servers of a cluster share: what comes in there goes on to the program, byte by byte.

The kernel spreads connections over the processes that listen on it, emulated servers and shims.
"""

import asyncio
import socket
from typing import Self, cast

_HIGH_WATER = 1 << 18


class SharedPort:
    def __init__(self, server: asyncio.Server, ends: "dict[_End, None]") -> None:
        self._server = server
        self._ends = ends

    @classmethod
    async def open(cls, address: str, port: int, target: int) -> Self:
        """`target` is the program's own port. Raises OSError."""
        listening = socket.socket(socket.AF_INET)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind((address, port))
        except OSError:
            listening.close()
            raise
        ends: dict[_End, None] = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Incoming(ends, address, target), sock=listening)
        return cls(server, ends)

    async def close(self) -> None:
        self._server.close()
        for end in [*self._ends]:
            end.close()
        await self._server.wait_closed()


class _End(asyncio.Protocol):
    """One side of a connection; what it receives the other side sends, as fast as that takes it."""

    def __init__(self, ends: "dict[_End, None]") -> None:
        self.ends = ends
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connect(self, other: "_End") -> None:
        """Has what comes in here sent by `other` from now on."""
        self.other = other
        if other.transport is not None:
            other.transport.writelines(self._early)
        self._early.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(_HIGH_WATER)
        self.ends[self] = None

    def data_received(self, data: bytes) -> None:
        """Keeps what comes before there is another side: some event loops read although they were asked not
        to."""
        if self.other is None:
            self._early.append(data)
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.pop(self, None)
        self.transport = None
        if self.other is not None:
            self.other.close()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


class _Incoming(_End):
    """Reads nothing before there is a connection to the program."""

    def __init__(self, ends: dict[_End, None], address: str, target: int) -> None:
        super().__init__(ends)
        self._target = address, target
        self._dialing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast("asyncio.Transport", transport).pause_reading()
        self._dialing = asyncio.create_task(self._dial())

    async def _dial(self) -> None:
        other = _End(self.ends)
        other.connect(self)
        try:
            await asyncio.get_running_loop().create_connection(lambda: other, *self._target)
        except OSError:
            self.close()
            return
        if self.transport is None:
            other.close()
            return
        self.connect(other)
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._dialing is not None and not self._dialing.done():
            self._dialing.cancel()

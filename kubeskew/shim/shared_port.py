"""A port that all API servers of a cluster share: what comes in there goes on to the program, byte by byte.

The kernel spreads connections over the processes that listen on it, emulated servers and shims.
"""

import asyncio
import socket
from typing import Self

from kubeskew.apimachinery.streaming.splicing import End, Incoming, Splices


class SharedPort(Splices):
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
        ends: dict[End, None] = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Incoming(ends, address, target), sock=listening)
        return cls(server, ends)


class _Incoming(Incoming):
    """Reads nothing before there is a connection to the program."""

    def __init__(self, ends: dict[End, None], address: str, target: int) -> None:
        super().__init__(ends)
        self._target = address, target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.begin(self._dial())

    async def _dial(self) -> None:
        try:
            await self.join(*self._target)
        except OSError:
            self.close()

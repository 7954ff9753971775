"""Two connections joined to one: what one receives the other sends, as fast as that takes it."""

import asyncio
import socket
from collections.abc import Awaitable, Coroutine
from typing import cast

from kubeskew.apimachinery.streaming.resets import reset

_HIGH_WATER = 1 << 18


class End(asyncio.Protocol):
    """One of the two. The joined connection ends with a side that is lost, or once both have sent all."""

    def __init__(self, ends: "dict[End, None]") -> None:
        self.ends = ends
        self.other: End | None = None
        self.transport: asyncio.Transport | None = None
        self.came = 0  # how often bytes came
        self._early: list[bytes] = []
        self.ended = False  # it sends no more

    def connect(self, other: "End") -> None:
        """Has what comes in here sent by `other` from now on."""
        self.other = other
        if other.transport is not None:
            other.transport.writelines(self._early)
        self._early.clear()
        if self.ended:
            self._pass_end(other)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(_HIGH_WATER)
        self.ends[self] = None

    def data_received(self, data: bytes) -> None:
        """Keeps what comes before there is another side: some event loops read although they were asked not
        to."""
        self.came += 1
        if self.other is None:
            self._early.append(data)
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        self.ended = True
        if self.other is not None:
            self._pass_end(self.other)
        return True

    def _pass_end(self, other: "End") -> None:
        if other.transport is not None:
            other.transport.write_eof()
        if other.ended and other.other is self:
            self.close()
            other.close()

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

    def abort(self) -> None:
        """Resets the connection."""
        if self.transport is not None:
            reset(self.transport)

    def close(self) -> None:
        """Sends what is still to be sent, then ends."""
        if self.transport is not None:
            self.transport.close()


class Incoming(End):
    """A connection that somebody has made, for which another one has to be made. It reads nothing while that
    is being done.
    """

    def __init__(self, ends: dict[End, None]) -> None:
        super().__init__(ends)
        self._dialing: asyncio.Task[None] | None = None

    def begin(self, dialing: Coroutine[None, None, None]) -> None:
        """Has `dialing` call `join`, or close this side."""
        if self.transport is not None:
            self.transport.pause_reading()
        self._dialing = asyncio.create_task(dialing)

    @property
    def is_dialing(self) -> bool:
        return self._dialing is not None

    async def join(self, host: str, port: int, greeting: bytes = b"") -> None:
        """Sends `greeting` before all that comes from there. Raises OSError."""
        other = End(self.ends)
        loop = asyncio.get_running_loop()
        await self._join(other, loop.create_connection(lambda: other, host, port), greeting)

    async def join_socket(self, connected: socket.socket, greeting: bytes = b"") -> None:
        """Takes over a connection that is there already, and joins it as `join` does. Raises OSError."""
        other = End(self.ends)
        loop = asyncio.get_running_loop()
        await self._join(other, loop.create_connection(lambda: other, sock=connected), greeting)

    async def _join(self, other: End, connecting: Awaitable[object], greeting: bytes) -> None:
        try:
            await connecting
        except asyncio.CancelledError:
            other.close()
            raise
        if self.transport is None:
            other.close()
            return
        self.transport.write(greeting)
        other.connect(self)
        self.connect(other)
        if other.transport is None:
            self.close()
        else:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._dialing is not None and not self._dialing.done():
            self._dialing.cancel()


class Splices:
    """A server's joined connections."""

    def __init__(self, server: asyncio.Server, ends: dict[End, None]) -> None:
        self._server = server
        self._ends = ends

    async def close(self) -> None:
        self._server.close()
        for end in [*self._ends]:
            end.close()
        await self._server.wait_closed()

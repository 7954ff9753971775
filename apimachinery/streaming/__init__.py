"""Bytes both ways over one HTTP connection: WebSocket, SPDY/3.1, and how a connection is taken over for them.

All codecs work over a `Pipe`; none knows a socket.
"""

from typing import Protocol


class Pipe(Protocol):
    """A connection from behind its HTTP head: bytes both ways."""

    async def read(self) -> bytes:
        """The next bytes, as they come; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send; waits while the other side is slow. Raises ConnectionError when it is gone."""
        ...


class PipeReader:
    """The bytes of a pipe by number."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._buffer = bytearray()

    async def take(self, count: int) -> bytes | None:
        """The next `count` bytes; None if the pipe ends before."""
        while len(self._buffer) < count:
            data = await self._pipe.read()
            if not data:
                return None
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

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

"""The transport of one connection: heads of messages, flow control in both directions, and the tunnel after
an upgrade.

Unreadable messages are answered as Go's net/http does (server.go, 1.25): plain text and the end of the
connection.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus

from multidict import CIMultiDict

RawHeaders = list[tuple[bytes, bytes]]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_LINE_BREAKS = str.maketrans("\r\n", "  ")
_BUFFERED_MAX = 1 << 18


def status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} status code {status}\r\n".encode()


def fields(content_type: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Line breaks in values become spaces, for a client may have written them."""
    lines = [f"Content-Type: {content_type}\r\n"] if content_type else []
    for name, value in headers:
        if "\n" in value or "\r" in value:
            value = value.translate(_LINE_BREAKS)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("utf-8", "replace")


def refusal(status: int, detail: str = "", text: str = "") -> bytes:
    """Closes the connection. `text` is the body, by default the status with `detail`."""
    said = f"{status} {HTTPStatus(status).phrase}{detail}"
    text = text or said
    first = f"HTTP/1.1 {said}\r\n"
    return f"{first}Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}".encode()


def decoded(raw: RawHeaders) -> CIMultiDict[str]:
    """Names are case-insensitive; repeated headers are kept."""
    return CIMultiDict([(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in raw])


@dataclass(slots=True)
class Limits:
    head_seconds: float = 32.0  # until a request's head is there; as upstream (ReadHeaderTimeout)
    idle_seconds: float = 90.0  # between two requests; as upstream (IdleTimeout)
    stall_seconds: float = 30.0  # after which a client that takes nothing of an answer is disconnected
    date: bytes = b""


class ConnectionTransport:
    """Past `deadline` (loop time) the connection counts as dead."""

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self.raw = transport
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.deadline = math.inf
        self.finishing = False  # no further request is accepted; the answer under way is the last
        self.broken = False  # the client is gone
        self._writable: asyncio.Future[None] | None = None
        self._holds = 0

    def allow(self, seconds: float) -> None:
        """Moves the deadline to `seconds` from now."""
        self.deadline = self.loop.time() + seconds

    def hold(self) -> None:
        """Stops reading from the client until `release` is called as often."""
        self._holds += 1
        if self._holds == 1:
            self.raw.pause_reading()

    def release(self) -> None:
        self._holds -= 1
        if self._holds == 0 and not self.broken:
            self.raw.resume_reading()

    def stop_writing(self) -> None:
        """Called when the client lags: `drain` then waits until `go_on_writing`."""
        self._writable = self.loop.create_future()

    def go_on_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    async def drain(self) -> None:
        """Waits while the client is slow. Raises ConnectionResetError."""
        if self._writable is not None:
            self.allow(self.limits.stall_seconds)
            await self._writable
            self.deadline = math.inf
        if self.broken:
            raise ConnectionResetError("the client is gone")


class ConnectionTunnel:
    """Carries bytes in both directions; a slow reader makes the client wait."""

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

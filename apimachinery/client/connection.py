"""One HTTP/1.1 connection to an API server, on httptools, with only what components need.

A general client library cost more than twice the CPU per request. Errors are aiohttp's, which the rest of the
client is used to.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from typing import cast

import aiohttp
import httptools

_HIGH_WATER, _LOW_WATER = 1 << 20, 1 << 18  # bytes of a stream that may wait to be read


class Headers(Mapping[str, str]):
    """Headers, looked up without regard to case."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def add(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self._values[key] = f"{self._values[key]}, {text}" if key in self._values else text

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Connection(asyncio.Protocol):
    """A connection with one request at a time. It can be used again if it is `finished` and not `closed`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._chunks: deque[bytes] = deque()
        self._waiting = 0  # bytes in `_chunks`
        self._paused = False
        self._changed: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._head_seen = False
        self.headers = Headers()
        self.status = 0
        self.finished = True
        self.closed = False
        self.idle_since = 0.0

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.finished:
            self.abort()  # an answer without a request
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._error = aiohttp.ClientPayloadError(f"malformed answer: {error}")
            self.abort()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if not self.finished and self._error is None:
            if self._ends_with_connection():
                self.finished = True
            elif self._head_seen:
                self._error = aiohttp.ClientPayloadError("the answer broke off")
            else:
                self._error = exc if isinstance(exc, OSError) else aiohttp.ServerDisconnectedError()
        self._wake()

    def _ends_with_connection(self) -> bool:
        """Returns whether only the end of the connection ends the answer: it gives no length."""
        return (
            self._head_seen
            and "content-length" not in self.headers
            and "transfer-encoding" not in self.headers
        )

    def abort(self) -> None:
        """Ends the connection at once."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Closes the connection after what was written has gone out."""
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    @property
    def tls(self) -> ssl.SSLObject | None:
        """Returns the TLS object, if the connection has TLS."""
        return self._transport.get_extra_info("ssl_object") if self._transport is not None else None

    # -- the parser's callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.add(name, value)

    def on_headers_complete(self) -> None:
        if self._parser is not None:
            self.status = self._parser.get_status_code()
        self._head_seen = self.status >= 200
        if not self._head_seen:
            self.headers = Headers()  # a 1xx answer

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._waiting += len(body)
        if self._waiting > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._head_seen:
            self.finished = True
            if self._parser is not None and not self._parser.should_keep_alive():
                self.close()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # -- use

    async def begin(self, message: bytes) -> None:
        """Sends a request, and returns when the head of the answer has come."""
        self._parser = httptools.HttpResponseParser(self)
        self._chunks.clear()
        self._waiting, self._error, self._head_seen = 0, None, False
        self.headers, self.status, self.finished = Headers(), 0, False
        if self._transport is None or self._transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        self._transport.write(message)
        while not self._head_seen:
            await self._more()

    async def read(self) -> bytes:
        """Returns the whole body."""
        while not self.finished:
            self._resume()
            await self._more()
        whole = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._waiting = 0
        return whole

    async def next_chunk(self) -> bytes:
        """Returns a part of the body; empty at its end."""
        while not self._chunks:
            if self.finished:
                return b""
            await self._more()
        chunk = self._chunks.popleft()
        self._waiting -= len(chunk)
        if self._waiting < _LOW_WATER:
            self._resume()
        return chunk

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        if self.closed and not self.finished:
            raise aiohttp.ServerDisconnectedError
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed
        if self._error is not None and not self._chunks:
            raise self._error

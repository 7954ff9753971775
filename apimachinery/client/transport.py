"""Transports send requests: the interface, the implementation over HTTPS, and failover among API servers.

An in-process server can implement the interface, too. A connection speaks HTTP/1.1 on httptools, with only
what components need: a general client library cost more than twice the CPU per request. Errors are aiohttp's,
which the rest of the client is used to.

Failover is as through a load balancer in front of the servers: client-go reaches one address, a client that
lost a server gets another one with the next connection, and requests under way are lost.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import urlsplit

import aiohttp
import httptools

from kubeskew.apimachinery.client.kubeconfig import ResumingContext, client_context

_HIGH_WATER, _LOW_WATER = 1 << 20, 1 << 18  # bytes of a stream that may wait to be read
CONNECT_TIMEOUT_SECONDS = 10.0
# Limit of requests under way at a time, watches not counted: a burst shares connections.
MAX_REQUESTS = 32
KEEP_SECONDS = 60.0  # seconds after which an unused connection is closed

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Headers(Mapping[str, str]):
    """Headers, looked up without regard to case; `lines` are as they came."""

    __slots__ = ("_values", "lines")

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self.lines: list[tuple[bytes, bytes]] = []

    def add(self, name: bytes, value: bytes) -> None:
        self.lines.append((name, value))
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
        return (
            self._head_seen
            and "content-length" not in self.headers
            and "transfer-encoding" not in self.headers
        )

    def abort(self) -> None:
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
        """None if the connection has no TLS."""
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
        """Sends a request and waits for the head of the answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._chunks.clear()
        self._waiting, self._error, self._head_seen = 0, None, False
        self.headers, self.status, self.finished = Headers(), 0, False
        if self._transport is None or self._transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        self._resume()  # the answer before may have ended while the socket was paused
        self._transport.write(message)
        while not self._head_seen:
            await self._more()

    async def read(self) -> bytes:
        while not self.finished:
            self._resume()
            await self._more()
        whole = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._waiting = 0
        return whole

    async def next_chunk(self) -> bytes:
        """Empty at the end of the body."""
        while not self._chunks:
            if self.finished:
                return b""
            await self._more()
        chunk = self._chunks.popleft()
        self._waiting -= len(chunk)
        if self._waiting < _LOW_WATER:
            self._resume()
        return chunk

    def arrived(self) -> bytes:
        """Takes what there is of the body, without waiting."""
        there = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting = 0
        self._resume()
        return there

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


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `target` is path and query, percent-encoded; `lines` are headers that are sent as they
    are."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None  # seconds until the whole answer must be there; None for streams
    lines: Sequence[tuple[bytes, bytes]] = ()


class Response(Protocol):
    """An answer whose head has come. Read either the body or the lines, then close."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Looked up without regard to case."""
        ...

    async def body(self) -> bytes: ...

    def lines(self) -> AsyncIterator[bytes]:
        """Lines of a stream as they come, without their ends."""
        ...

    async def close(self) -> None:
        """Gives the connection back, or ends it when the body was not read to its end."""
        ...


class Transport(Protocol):
    """Sends requests. Raises `aiohttp.ClientError`, `OSError` or `TimeoutError` when no answer comes."""

    async def __call__(self, request: Request) -> Response: ...

    async def close(self) -> None: ...


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Non-empty lines only; takes time linear in the size of the stream."""
    parts: list[bytes] = []  # of the line that has not ended yet
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            whole = b"".join((*parts, line)) if parts else line
            parts.clear()
            if whole:
                yield whole
        if rest:
            parts.append(rest)
    if parts:
        yield b"".join(parts)


class HTTPResponse:
    """The answer on a connection. Its body may also be taken in pieces as they come."""

    def __init__(self, connection: Connection, end: Callable[[], None]) -> None:
        self._connection = connection
        self._end: Callable[[], None] | None = end
        self.status = connection.status
        self.headers: Headers = connection.headers

    async def body(self) -> bytes:
        return await self._connection.read()

    @property
    def finished(self) -> bool:
        """True once all of the answer has come; some of it may not have been taken."""
        return self._connection.finished

    def arrived(self) -> bytes:
        """Takes what there is of the body, without waiting."""
        return self._connection.arrived()

    async def chunk(self) -> bytes:
        """Waits for more of the body; empty at its end."""
        return await self._connection.next_chunk()

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunk():
            yield chunk

    def lines(self) -> AsyncIterator[bytes]:
        return split_lines(self.chunks())

    async def close(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()


class HTTPTransport:
    """Keeps connections for the next request; opens as many as are needed at a time."""

    def __init__(
        self,
        base_url: str,
        ssl_context: ResumingContext | None = None,
        *,
        max_requests: int = MAX_REQUESTS,
        address: tuple[str, int] | None = None,
    ) -> None:
        """The server may have another `address` than that of the URL, for which its certificate is."""
        base = urlsplit(base_url)
        self._tls = (ssl_context or client_context()) if base.scheme == "https" else None
        self._host = base.hostname or ""
        self._port = base.port or (443 if self._tls is not None else 80)
        self._address = address or (self._host, self._port)
        self._prefix = base.path.rstrip("/")
        self._authority = base.netloc.rpartition("@")[2]
        self._idle: list[Connection] = []
        self._busy: dict[Connection, None] = {}
        self._slots = asyncio.Semaphore(max_requests)

    async def __call__(self, request: Request) -> Response:
        if request.timeout is None:
            return await self._send(request, lambda: None)
        await self._slots.acquire()
        try:
            async with asyncio.timeout(request.timeout):
                return await self._send(request, self._slots.release)
        except BaseException:
            self._slots.release()
            raise

    async def _send(self, request: Request, end: Callable[[], None]) -> HTTPResponse:
        message = self._message(request)
        kept = self._kept()
        connection = kept or await self._opened()
        self._busy[connection] = None
        try:
            await connection.begin(message)
            if kept is None and self._tls is not None:
                self._tls.keep(connection.tls)
            if request.timeout is not None:
                return _ReadResponse(connection, await connection.read(), self._done(connection, end))
        except BaseException:
            self._busy.pop(connection, None)
            connection.abort()
            raise
        return HTTPResponse(connection, self._done(connection, end))

    def _done(self, connection: Connection, end: Callable[[], None]) -> Callable[[], None]:
        def done() -> None:
            end()
            self._busy.pop(connection, None)
            if connection.finished and not connection.closed:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)
            else:
                connection.abort()

        return done

    def _kept(self) -> Connection | None:
        """The connection used last that is still open; those that were unused for too long are closed."""
        oldest = asyncio.get_running_loop().time() - KEEP_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.closed:
                continue
            if connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _opened(self) -> Connection:
        loop = asyncio.get_running_loop()
        name = self._host if self._tls is not None else None
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            _, connection = await loop.create_connection(
                Connection, *self._address, ssl=self._tls, server_hostname=name
            )
        return connection

    def _message(self, request: Request) -> bytes:
        """Raises ClientError where a line break would make more lines of the head than there are."""
        lines = [f"{request.method} {self._prefix}{request.target} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        body = request.body
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        elif request.method in _WITH_BODY:
            lines.append("Content-Length: 0")
        head = "\r\n".join([*lines, ""]).encode("latin-1")
        head += b"".join([b"%b: %b\r\n" % line for line in request.lines]) + b"\r\n"
        ends = len(lines) + len(request.lines) + 1
        if head.count(b"\r") != ends or head.count(b"\n") != ends or b"\0" in head:
            raise aiohttp.ClientError("a line break or a null byte in the request's target or headers")
        return head + body if body else head

    async def close(self) -> None:
        connections = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        for connection in connections:
            connection.close()
        # TLS connections need a turn of the loop to close.
        await asyncio.sleep(0)


class _ReadResponse(HTTPResponse):
    """An answer whose body has been read: its connection is free again."""

    def __init__(self, connection: Connection, content: bytes, end: Callable[[], None]) -> None:
        super().__init__(connection, end)
        self._content = content

    async def body(self) -> bytes:
        return self._content

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._content


class FailoverTransport:
    """Stays with a server, the first in the beginning, until it refuses connections; then takes the next.

    A request is sent again only where no server can have received it. If all refuse, the last server's
    transport raises its error.
    """

    def __init__(self, transports: Sequence[Transport]) -> None:
        self._transports = transports
        self._current = 0

    async def __call__(self, request: Request) -> Response:
        start = self._current
        for number in range(start, start + len(self._transports) - 1):
            chosen = number % len(self._transports)
            try:
                return await self._ask(chosen, request)
            except ConnectionRefusedError:
                continue
        return await self._ask((start - 1) % len(self._transports), request)

    async def _ask(self, chosen: int, request: Request) -> Response:
        response = await self._transports[chosen](request)
        self._current = chosen
        return response

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()


def failing_over(transports: Sequence[Transport]) -> Transport:
    """Fails over among several transports; a single one is returned as it is."""
    return transports[0] if len(transports) == 1 else FailoverTransport(transports)

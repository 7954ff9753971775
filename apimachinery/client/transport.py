"""Sends requests: the interface that an in-process server can implement too, and the implementation over
HTTPS."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from kubeskew.apimachinery.client.connection import Connection
from kubeskew.apimachinery.client.resuming import ResumingContext, client_context

CONNECT_TIMEOUT_SECONDS = 10.0
# Limit of requests under way at a time, watches not counted: a burst shares connections.
MAX_REQUESTS = 32
KEEP_SECONDS = 60.0  # seconds after which an unused connection is closed

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `target` is path and query, percent-encoded."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None  # seconds until the whole answer must be there; None for streams


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
        """Yields the lines of a stream as they come, without their ends."""
        ...

    async def close(self) -> None:
        """Give the connection back, or end it when the body was not read to its end."""
        ...


class Transport(Protocol):
    """Sends requests. Raises `aiohttp.ClientError`, `OSError` or `TimeoutError` when no answer comes."""

    async def __call__(self, request: Request) -> Response: ...

    async def close(self) -> None: ...


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the non-empty lines in a stream of chunks, in time linear in its size."""
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


class _HTTPResponse:
    def __init__(self, connection: Connection, end: Callable[[], None]) -> None:
        self._connection = connection
        self._end: Callable[[], None] | None = end
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers

    async def body(self) -> bytes:
        return await self._connection.read()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._connection.next_chunk():
            yield chunk

    def lines(self) -> AsyncIterator[bytes]:
        return split_lines(self._chunks())

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
    ) -> None:
        base = urlsplit(base_url)
        self._tls = (ssl_context or client_context()) if base.scheme == "https" else None
        self._host = base.hostname or ""
        self._port = base.port or (443 if self._tls is not None else 80)
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

    async def _send(self, request: Request, end: Callable[[], None]) -> _HTTPResponse:
        kept = self._kept()
        connection = kept or await self._opened()
        self._busy[connection] = None
        try:
            await connection.begin(self._message(request))
            if kept is None and self._tls is not None:
                self._tls.keep(connection.tls)
            if request.timeout is not None:
                return _ReadResponse(connection, await connection.read(), self._done(connection, end))
        except BaseException:
            self._busy.pop(connection, None)
            connection.abort()
            raise
        return _HTTPResponse(connection, self._done(connection, end))

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
        """Returns the connection used last that is still open."""
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
                Connection, self._host, self._port, ssl=self._tls, server_hostname=name
            )
        return connection

    def _message(self, request: Request) -> bytes:
        lines = [f"{request.method} {self._prefix}{request.target} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        body = request.body
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        elif request.method in _WITH_BODY:
            lines.append("Content-Length: 0")
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        return head + body if body else head

    async def close(self) -> None:
        connections = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        for connection in connections:
            connection.close()
        # TLS connections need a turn of the loop to close.
        await asyncio.sleep(0)


class _ReadResponse(_HTTPResponse):
    """An answer whose body has been read: its connection is free again."""

    def __init__(self, connection: Connection, content: bytes, end: Callable[[], None]) -> None:
        super().__init__(connection, end)
        self._content = content

    async def body(self) -> bytes:
        return self._content

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield self._content

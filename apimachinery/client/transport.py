"""How requests travel: the interface that an in-process server can implement too, and the one over HTTPS."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
from yarl import URL

CONNECT_TIMEOUT_SECONDS = 10.0
# Requests under way at a time, watches not counted: a burst shares connections instead of opening its own.
MAX_REQUESTS = 32


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
        """The lines of a stream as they come, without their ends."""
        ...

    async def close(self) -> None:
        """Give the connection back, or end it when the body was not read to its end."""
        ...


class Transport(Protocol):
    """Sends requests. Raises `aiohttp.ClientError`, `OSError` or `TimeoutError` when no answer comes."""

    async def __call__(self, request: Request) -> Response: ...

    async def close(self) -> None: ...


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The non-empty lines in a stream of chunks; each byte is looked at once, lines may be of any length."""
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
    def __init__(self, response: aiohttp.ClientResponse, slot: asyncio.Semaphore | None) -> None:
        self._response = response
        self._slot = slot

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def body(self) -> bytes:
        return await self._response.read()

    def lines(self) -> AsyncIterator[bytes]:
        return split_lines(self._response.content.iter_any())

    async def close(self) -> None:
        self._response.release()
        if self._slot is not None:
            self._slot.release()
            self._slot = None


class HTTPTransport:
    """aiohttp with a connection pool; the session is made at the first request, inside the running loop."""

    def __init__(self, base_url: str, ssl_context: ssl.SSLContext | None = None) -> None:
        self._base = base_url.rstrip("/")
        self._ssl = ssl_context
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(MAX_REQUESTS)

    async def __call__(self, request: Request) -> Response:
        if request.timeout is None:
            return _HTTPResponse(await self._send(request), None)
        await self._slots.acquire()
        try:
            return _HTTPResponse(await self._send(request), self._slots)
        except BaseException:
            self._slots.release()
            raise

    async def _send(self, request: Request) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(
            total=request.timeout, connect=None, sock_connect=CONNECT_TIMEOUT_SECONDS
        )
        return await self._opened().request(
            request.method,
            URL(self._base + request.target, encoded=True),
            headers=request.headers,
            data=request.body,
            timeout=timeout,
            allow_redirects=False,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._ssl if self._ssl is not None else True,
                limit=0,  # watches hold connections for ever; a pool limit would starve requests
                limit_per_host=0,
                keepalive_timeout=60.0,
                use_dns_cache=True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            # TLS connections need a turn of the loop to say goodbye (aiohttp, "Graceful Shutdown").
            await asyncio.sleep(0)

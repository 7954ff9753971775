"""A lean HTTP/1.1 client for load: one keep-alive connection, one request at a time, bodies read whole.

A general client library costs more than the server that it measures; this one does only what load needs.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self


class Connection:
    """One TLS connection with a bearer token."""

    def __init__(self, port: int, tls: ssl.SSLContext, token: str, host: str = "127.0.0.1") -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._head = f"Host: {host}:{port}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n"
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._tls, limit=1 << 20
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Status and body of the answer."""
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + body)
        status, headers = await self._read_head()
        if b"transfer-encoding: chunked" in headers:
            return status, b"".join([chunk async for chunk in self._chunks()])
        start = headers.index(b"content-length:") + 15
        size = int(headers[start : headers.index(b"\r\n", start)])
        return status, await self._reader.readexactly(size)

    async def watch(self, path: str) -> None:
        """Begins a watch; read it with `next_line`. Raises RuntimeError if it is refused."""
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        status, _ = await self._read_head()
        if status != 200:
            raise RuntimeError(f"watch of {path}: {status}")
        self._lines = self._chunks()
        self._rest = b""

    async def next_line(self) -> bytes:
        """The next event of the watch."""
        while b"\n" not in self._rest:
            self._rest += await anext(self._lines)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def _read_head(self) -> tuple[int, bytes]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), head.lower()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)

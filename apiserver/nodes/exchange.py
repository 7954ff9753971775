"""One HTTP/1.1 request over a connection of its own, and its answer: streamed, or turned into a pipe.

A connection per request is what upgrades need; logs and proxies are rare enough to do the same.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass

from apimachinery.streaming import Pipe

_HEAD_LIMIT = 1 << 18
_HEAD_SECONDS = 30.0
_DIAL_SECONDS = 10.0

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a backend listens; without a context in plain HTTP."""

    host: str
    port: int
    context: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.context is not None else "http"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class DialError(Exception):
    """The backend cannot be reached; the text is Go's."""


class BackendPipe:
    """The bytes behind an answer's head, or the body of an answer that ends with its connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(1 << 16)
        except (ConnectionError, ssl.SSLError):
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


@dataclass(slots=True)
class Answer:
    """A backend's answer. Read `pieces` or speak through `pipe`, then `close`."""

    status: int
    reason: str
    headers: Headers
    pipe: BackendPipe
    reader: asyncio.StreamReader
    bodiless: bool = False

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes. The connection is closed at its end."""
        try:
            if self.bodiless or self.status in {204, 304}:
                return
            if "chunked" in self.header("transfer-encoding").lower():
                async for piece in _chunks(self.reader):
                    yield piece
            else:
                async for piece in self._plain():
                    yield piece
        finally:
            self.close()

    async def _plain(self) -> AsyncIterator[bytes]:
        length = self.header("content-length")
        left = int(length) if length.isdigit() else None
        while left is None or left > 0:
            data = await self.reader.read(1 << 16 if left is None else min(1 << 16, left))
            if not data:
                return
            left = None if left is None else left - len(data)
            yield data

    async def text(self, limit: int) -> str:
        """The beginning of the body, and the end of the connection."""
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) >= limit:
                break
        return bytes(found[:limit]).decode("utf-8", "replace")

    def close(self) -> None:
        self.pipe.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        size = int((await reader.readline()).split(b";")[0].strip() or b"0", 16)
        if not size:
            return
        yield await reader.readexactly(size)
        await reader.readline()


async def send(
    address: Address, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b""
) -> Answer:
    """Send a request; the answer once its head is there. Raises DialError."""
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=address.context, limit=_HEAD_LIMIT
            )
    except ssl.SSLCertVerificationError as error:
        raise DialError(f"tls: failed to verify certificate: x509: {error.verify_message}") from None
    except (OSError, TimeoutError) as error:
        raise DialError(f"dial tcp {address}: {_words(error)}") from None
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: {address}\r\n{lines}\r\n".encode("latin-1") + body)
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()
        raise DialError("EOF") from None
    return _answer(head, reader, writer, method)


def _words(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return f"connect: {(getattr(error, 'strerror', None) or str(error)).lower()}"


def _answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str) -> Answer:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    _, code, reason = [*first.split(" ", 2), "", ""][:3]
    pairs = [line.partition(":") for line in lines]
    headers = [(name, value.strip()) for name, _, value in pairs]
    status = int(code) if code.isdigit() else 502
    return Answer(status, reason, headers, BackendPipe(reader, writer), reader, method == "HEAD")


async def join_pipes(one: Pipe, other: Pipe) -> None:
    """Carry bytes both ways until either side ends."""

    async def carry(source: Pipe, target: Pipe) -> None:
        with suppress(ConnectionError):
            while data := await source.read():
                await target.write(data)

    tasks = [asyncio.ensure_future(carry(one, other)), asyncio.ensure_future(carry(other, one))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

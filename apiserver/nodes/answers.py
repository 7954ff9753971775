"""Reads the answer of a backend: its head, and its body as it comes."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

_PIECE = 1 << 16
_SWITCHING, _CODE_DIGITS = 101, 3

Headers = list[tuple[str, str]]


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
class BackendResponse:
    """A backend's answer. Read `pieces` or speak through `pipe`, then `close`."""

    status: int
    reason: str
    headers: Headers
    pipe: BackendPipe
    reader: asyncio.StreamReader
    bodiless: bool = False
    sending: asyncio.Task[None] | None = None  # of the request's body

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def length(self) -> int | None:
        """Returns the length of the body in bytes, None if its end tells."""
        announced = self.header("content-length")
        chunked = "chunked" in self.header("transfer-encoding").lower()
        return int(announced) if announced.isdecimal() and not chunked else None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yields the body, as it comes. The connection is closed at its end. Raises ConnectionResetError."""
        try:
            if self.bodiless or self.status in {204, 304}:
                return
            if "chunked" in self.header("transfer-encoding").lower():
                async for piece in _chunks(self.reader):
                    yield piece
            else:
                async for piece in self._plain():
                    yield piece
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionResetError(f"a backend's answer breaks off: {error}") from None
        finally:
            self.close()

    async def _plain(self) -> AsyncIterator[bytes]:
        left = self.length
        while left is None or left > 0:
            data = await self.reader.read(_PIECE if left is None else min(_PIECE, left))
            if not data:
                if left:
                    raise asyncio.IncompleteReadError(b"", left)
                return
            left = None if left is None else left - len(data)
            yield data

    async def read(self, limit: int) -> bytes:
        """Returns the beginning of the body, and the end of the connection. Raises ConnectionResetError."""
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) >= limit:
                break
        self.close()
        return bytes(found[:limit])

    async def text(self, limit: int) -> str:
        """Returns the beginning of the body as text, as far as it comes."""
        try:
            found = await self.read(limit)
        except ConnectionResetError:
            return ""
        return found.decode("utf-8", "replace")

    def close(self) -> None:
        if self.sending is not None:
            self.sending.cancel()
        self.pipe.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Raises ValueError where the framing is none, IncompleteReadError where it ends too early."""
    while True:
        left = int((await reader.readuntil(b"\n")).split(b";")[0], 16)
        if left < 0:
            raise ValueError("a chunk of negative length")
        if not left:
            return
        while left:
            piece = await reader.read(min(left, _PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
        await reader.readuntil(b"\n")


async def read_answer(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    sending: asyncio.Task[None] | None,
) -> BackendResponse:
    """Returns an answer, once its head is there. Raises ValueError if it is no HTTP, and what
    reading raises.
    """
    status = 100
    while 100 <= status < 200 and status != _SWITCHING:  # what comes before the answer itself
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        protocol, code, reason = [*first.split(" ", 2), "", ""][:3]
        if not protocol.startswith("HTTP/") or not code.isdigit() or len(code) != _CODE_DIGITS:
            raise ValueError(f"malformed HTTP response {first[:80]!r}")
        status = int(code)
    pairs = [line.partition(":") for line in lines]
    headers = [(name, value.strip()) for name, colon, value in pairs if colon]
    return BackendResponse(
        status, reason, headers, BackendPipe(reader, writer), reader, method == "HEAD", sending
    )

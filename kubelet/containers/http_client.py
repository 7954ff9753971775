"""One HTTP/1.1 request over a connection to a pod, plain or in TLS."""

import asyncio
import ssl
import string
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from kubeskew.kubelet.containers.runtime_service import Connection

Result = TypeVar("Result")
Headers = tuple[tuple[str, str], ...]
_MOST_BYTES = 64 << 20
_HEAD_BYTES = 1 << 20
_LINE_BYTES = 1 << 20
_CODE_DIGITS, _CHUNK_DIGITS, _LENGTH_DIGITS = 3, 16, 18
_HEX = frozenset(string.hexdigits)
_BODILESS = frozenset({204, 304})


class HTTPError(OSError):
    """The other side speaks no HTTP."""


class HTTPAnswer(NamedTuple):
    status: int
    reason: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str:
        """The first header of a name, empty if there is none."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


async def request(
    connection: Connection,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: bytes = b"",
    most: int = _MOST_BYTES,
) -> HTTPAnswer:
    """Sends a request and reads its answer, of whose body `most` bytes are kept. Raises OSError."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    head = "".join(f"{line}\r\n" for line in [*lines, "Connection: close"])
    await connection.write(f"{head}\r\n".encode("latin-1", "replace") + body)
    reader = _Reader(connection)
    while True:
        status, reason, found = await reader.head()
        if status >= 200 or status == 101:
            break
    answer = HTTPAnswer(status, reason, found, b"")
    if method == "HEAD" or status in _BODILESS:
        return answer
    if "chunked" in answer.header("Transfer-Encoding").lower():
        return answer._replace(body=await reader.chunks(most))
    length = answer.header("Content-Length")
    size = int(length) if length.isdecimal() and len(length) <= _LENGTH_DIGITS else None
    return answer._replace(body=await reader.body(size, most))


class _Reader:
    """Holds no more than it is asked for, and what one read gives: the other side may be a hostile one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held = bytearray()
        self._head_left = _HEAD_BYTES

    async def _more(self) -> bool:
        data = await self._connection.read()
        self._held += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    async def _line(self) -> str:
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            if seen > _LINE_BYTES or not await self._more():
                raise HTTPError("EOF" if not self._held else "malformed HTTP response")
        return self._take(end + 1).decode("latin-1").rstrip("\r\n")

    async def _head_line(self) -> str:
        line = await self._line()
        self._head_left -= len(line) + 1
        if self._head_left < 0:
            raise HTTPError(f"net/http: server response headers exceeded {_HEAD_BYTES} bytes; aborted")
        return line

    async def head(self) -> tuple[int, str, Headers]:
        first = await self._head_line()
        version, _, rest = first.partition(" ")
        code, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/") or not code.isdecimal() or len(code) != _CODE_DIGITS:
            raise HTTPError(f'malformed HTTP response "{first}"')
        headers = []
        while line := await self._head_line():
            name, _, value = line.partition(":")
            headers.append((name.strip(), value.strip()))
        return int(code), reason, tuple(headers)

    async def body(self, size: int | None, most: int) -> bytes:
        wanted = most if size is None else min(size, most)
        while len(self._held) < wanted and await self._more():
            pass
        return self._take(wanted)

    async def chunks(self, most: int) -> bytes:
        found = bytearray()
        while len(found) < most:
            size = _chunk_size((await self._line()).partition(";")[0].strip())
            if not size:
                break
            found += await self.body(size, most - len(found))
            if len(found) < most:
                await self._line()  # the end of the chunk
        return bytes(found)


def _chunk_size(text: str) -> int:
    """Raises HTTPError."""
    if not text or not set(text) <= _HEX:
        raise HTTPError("invalid byte in chunk length")
    if len(text) > _CHUNK_DIGITS:
        raise HTTPError("http chunk length too large")
    return int(text, 16)


class TLSConnection:
    """TLS within a connection, without a look at the certificate."""

    def __init__(self, inner: Connection) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)

    async def read(self) -> bytes:
        try:
            return await self._do(lambda: self._tls.read(1 << 16))
        except ssl.SSLEOFError:
            return b""

    async def write(self, data: bytes) -> None:
        await self._do(lambda: self._tls.write(data))

    async def close(self) -> None:
        await self._inner.close()

    async def _do(self, act: Callable[[], Result]) -> Result:
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._inner.read()
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            finally:
                await self._flush()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._inner.write(self._outgoing.read())


class StreamConnection:
    """A connection to an address of the machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()

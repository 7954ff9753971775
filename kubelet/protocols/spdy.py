"""SPDY/3.1 as Kubernetes uses it: many byte streams over one pipe, each with headers.

Header blocks are names and values, compressed along the whole connection with the protocol's dictionary.

Sources: SPDY protocol drafts 3 (section 2.6.10) and 3.1, and the behaviour of the peers (spdystream in
kubectl and kubelet): neither side observes flow control windows, SETTINGS are ignored, a PING is echoed.
"""

import asyncio
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum

from kubeskew.apimachinery.streaming import Pipe, PipeReader

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date etag "
    "expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since "
    "last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
    "retry-after server te trailer transfer-encoding upgrade user-agent vary via warning "
    "www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_VERSION = 3
_CONTROL = 0x80000000
_FIN = 0x01
_MAX_DATA = 1 << 16  # size of a frame that is sent
_MAX_FRAME = 1 << 24


def _dictionary() -> bytes:
    return b"".join(_sized(word.replace("_", " ").encode()) for word in _WORDS.split()) + _REST.encode()


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


DICTIONARY = _dictionary()


class HeaderError(ValueError):
    """A header block that cannot be read."""


class HeaderWriter:
    """Compresses the blocks of one direction of a connection."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zdict=DICTIONARY)

    def write(self, headers: Mapping[str, str]) -> bytes:
        parts = [len(headers).to_bytes(4, "big")]
        for name, value in headers.items():
            parts += [_sized(name.lower().encode()), _sized(value.encode())]
        return self._zlib.compress(b"".join(parts)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderReader:
    """Reads the blocks of one direction of a connection."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, block: bytes) -> dict[str, str]:
        """Names are in lower case. Raises HeaderError."""
        try:
            data = self._zlib.decompress(block, 1 << 20)
        except zlib.error as error:
            raise HeaderError(str(error)) from None
        if self._zlib.unconsumed_tail:
            raise HeaderError("header block too large")
        position = 4
        headers: dict[str, str] = {}
        for _ in range(int.from_bytes(data[:4], "big")):
            name, position = _string(data, position)
            value, position = _string(data, position)
            headers[name] = value
        return headers


def _string(data: bytes, start: int) -> tuple[str, int]:
    end = start + 4 + int.from_bytes(data[start : start + 4], "big")
    if end > len(data):
        raise HeaderError("header block cut off")
    return data[start + 4 : end].decode("utf-8", "replace"), end


class Kind(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5


class Stream:
    """One stream of a connection. Bytes from the peer are queued; empty bytes mark their end."""

    def __init__(self, connection: "Connection", number: int, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self.number = number
        self.headers = headers
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = False
        self._closed = False
        self._finished = False  # by the peer
        self.replied = asyncio.Event()

    async def read(self) -> bytes:
        """Empty bytes are the end."""
        if self._ended and self._incoming.empty():
            return b""
        data = await self._incoming.get()
        if not data:
            self._ended = True
        return data

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _MAX_DATA):
            await self._connection.send_data(self.number, data[start : start + _MAX_DATA])

    async def close(self) -> None:
        """Ends this side of the stream."""
        if not self._closed:
            self._closed = True
            with suppress(ConnectionError):
                await self._connection.send_data(self.number, b"", fin=True)
            self._forget_if_over()

    async def reset(self, status: int = CANCEL) -> None:
        """Ends the stream in both directions."""
        self._closed = True
        self.feed(b"")
        self._connection.forget(self.number)
        with suppress(ConnectionError):
            await self._connection.send_control(Kind.RST_STREAM, 0, struct.pack(">II", self.number, status))

    def feed(self, data: bytes) -> None:
        """Takes bytes from the connection, or empty bytes for the end."""
        self._incoming.put_nowait(data)
        if not data:
            self._finished = True
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._closed and self._finished:
            self._connection.forget(self.number)


class Connection:
    """One side of a connection.

    `run` reads until the end; `accept` returns the peer's streams, already replied to.
    """

    def __init__(self, pipe: Pipe, *, client: bool = False) -> None:
        self._pipe = pipe
        self._streams: dict[int, Stream] = {}
        self._accepted: asyncio.Queue[Stream | None] = asyncio.Queue()
        self._next = 1 if client else 2
        self._headers_in, self._headers_out = HeaderReader(), HeaderWriter()
        self._sending = asyncio.Lock()
        self._incoming = PipeReader(pipe)

    # -- streams

    async def accept(self) -> Stream | None:
        """None is the end of the connection."""
        return await self._accepted.get()

    async def open(self, headers: Mapping[str, str]) -> Stream:
        stream = Stream(self, self._next, headers)
        self._next += 2
        self._streams[stream.number] = stream
        head = struct.pack(">IIH", stream.number, 0, 0)
        await self._send_headers(Kind.SYN_STREAM, head, headers)
        return stream

    def forget(self, number: int) -> None:
        self._streams.pop(number, None)

    # -- sending

    async def send_data(self, number: int, data: bytes, *, fin: bool = False) -> None:
        flags = _FIN if fin else 0
        await self._send(struct.pack(">II", number, flags << 24 | len(data)) + data)

    async def send_control(self, kind: int, flags: int, body: bytes) -> None:
        await self._send(struct.pack(">II", _CONTROL | _VERSION << 16 | kind, flags << 24 | len(body)) + body)

    async def _send_headers(self, kind: int, head: bytes, headers: Mapping[str, str]) -> None:
        async with self._sending:  # blocks go out in the order of their compression
            body = head + self._headers_out.write(headers)
            frame = struct.pack(">II", _CONTROL | _VERSION << 16 | kind, len(body)) + body
            await self._pipe.write(frame)

    async def _send(self, frame: bytes) -> None:
        async with self._sending:
            await self._pipe.write(frame)

    async def go_away(self) -> None:
        """Announces that no more streams are accepted."""
        with suppress(ConnectionError):
            await self.send_control(Kind.GOAWAY, 0, struct.pack(">II", 0, 0))

    # -- receiving

    async def run(self) -> None:
        """Reads frames until the connection ends or breaks the protocol; then ends every stream."""
        try:
            while (frame := await self._frame()) is not None:
                await self._received(*frame)
        except (HeaderError, ConnectionError, struct.error):
            pass  # handled like an end: the caller closes the pipe
        finally:
            for stream in [*self._streams.values()]:
                stream.feed(b"")
            self._accepted.put_nowait(None)

    async def _frame(self) -> tuple[int, int, bytes] | None:
        """A frame is (first word, flags, body); None at the end of the connection."""
        head = await self._incoming.take(8)
        if head is None:
            return None
        first, second = struct.unpack(">II", head)
        size = second & 0xFFFFFF
        body = await self._incoming.take(size) if size < _MAX_FRAME else None
        return None if body is None else (first, second >> 24, body)

    async def _received(self, first: int, flags: int, body: bytes) -> None:
        if not first & _CONTROL:
            await self._data(first, flags, body)
            return
        kind = first & 0xFFFF
        if kind == Kind.SYN_STREAM:
            await self._opened(flags, body)
        elif kind == Kind.SYN_REPLY:
            self._headers_in.read(body[4:])
            if stream := self._streams.get(_number(body)):
                stream.replied.set()
        elif kind == Kind.HEADERS:
            self._headers_in.read(body[4:])
        elif kind == Kind.PING:
            if struct.unpack(">I", body)[0] % 2 != self._next % 2:
                await self.send_control(Kind.PING, 0, body)
        elif kind == Kind.RST_STREAM and (stream := self._streams.pop(_number(body), None)):
            stream.feed(b"")

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return  # reset in the meantime
        if body:
            stream.feed(body)
        if flags & _FIN:
            stream.feed(b"")

    async def _opened(self, flags: int, body: bytes) -> None:
        number = _number(body)
        headers = self._headers_in.read(body[10:])
        stream = Stream(self, number, headers)
        self._streams[number] = stream
        if flags & _FIN:
            stream.feed(b"")
        await self._send_headers(Kind.SYN_REPLY, struct.pack(">I", number), {})
        self._accepted.put_nowait(stream)


def _number(body: bytes) -> int:
    number: int = struct.unpack(">I", body[:4])[0]
    return number & 0x7FFFFFFF

"""Incoming requests: heads from the callbacks of the HTTP parser, and bodies that make a fast sender wait."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import httptools

from kubeskew.apiserver.http import wire
from kubeskew.apiserver.http.request import BodyBrokenError, BodyTooLargeError, Peer, Request, parse_query
from kubeskew.apiserver.http.wire import ConnectionTransport

_BUFFERED_MAX = 1 << 18  # bytes kept for a handler that has not asked for them yet
_HEAD_MAX = (1 << 20) + 4096  # bytes; as upstream (MaxHeaderBytes and Go's slack)
_FRAMING_MAX = 64 << 10  # bytes of chunk sizes, extensions and trailers, besides 8 times the data
_FRAMING_FACTOR = 8
_ABSOLUTE = re.compile(r"^https?://[^/?]*")  # before a path, as clients write it for a proxy
_HOST = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=@\[\]_~]*")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Body:
    """The connection fills it (`feed`, `finish`, `fail`), one handler reads it.

        `pause` and `resume` stop and restart the sender; `expected` is called before the first wait for
    bytes.


    """

    def __init__(self, announced: int, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self.announced = announced  # Content-Length in bytes, 0 if there is none
        self.complete = False
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._error: Exception | None = None
        self._paused = False
        self._pause = pause
        self._resume = resume
        self._expected: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    def when_wanted(self, announce: Callable[[], None]) -> None:
        """Calls `announce` once, when the handler first waits for bytes (100 Continue)."""
        self._expected = announce

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _BUFFERED_MAX and not self._paused:
            self._paused = True
            self._pause()
        self._wake()

    def finish(self) -> None:
        self.complete = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """The rest will not come: the connection is gone, or its framing wrong."""
        if not self.complete:
            self._error = error
            self._wake()

    async def read(self, limit: int) -> bytes:
        """Reads the whole body. Raises BodyTooLargeError beyond `limit` bytes, BodyBrokenError if its end
        never comes.
        """
        if self.announced > limit:
            raise BodyTooLargeError
        if self.complete and self._size <= limit:  # usual: it came with its head
            return self._taken()
        found, size = [], 0
        while chunk := await self._next():
            size += len(chunk)
            if size > limit:
                raise BodyTooLargeError
            found.append(chunk)
        return found[0] if len(found) == 1 else b"".join(found)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the body as it comes, however large. Raises BodyBrokenError if its end never comes."""
        while chunk := await self._next():
            yield chunk

    async def skip(self) -> None:
        """Reads the rest and drops it, until it has ended or broken off."""
        self._expected = None
        try:
            while await self._next():
                pass
        except BodyBrokenError:
            pass

    async def _next(self) -> bytes:
        """Waits for bytes; empty at the end."""
        while not self._chunks:
            if self._error is not None:
                raise BodyBrokenError(str(self._error))
            if self.complete:
                return b""
            await self._wait()
        return self._taken()

    def _taken(self) -> bytes:
        found = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._resume()
        return found

    async def _wait(self) -> None:
        if self._expected is not None:
            announce, self._expected = self._expected, None
            announce()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class IncomingRequest(NamedTuple):
    request: Request
    body: Body
    keep_alive: bool
    chunked: bool  # the client understands chunks (HTTP/1.1)


class Refusal(NamedTuple):
    """`answer` is the whole answer to bytes that are no request."""

    answer: bytes


class _NotServedError(Exception):
    """Stops the parser at a head that is refused with `answer`."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class Incoming:
    """Parses what a connection receives.

    `begun` is called when a request begins, `taken` with each request that has its head, at the end perhaps
    with a refusal in Go's words. After a last request everything is dropped unread, as Go's server does:
    after one that is refused or broken, and after one that asks for the connection's end.
    """

    def __init__(
        self,
        transport: ConnectionTransport,
        peer: Peer | None,
        begun: Callable[[], None],
        taken: Callable[[IncomingRequest | Refusal], None],
    ) -> None:
        self.body: Body | None = None  # of the request that is coming in
        self._transport = transport
        self._peer = peer
        self._begun = begun
        self._taken = taken
        self._ended = False  # nothing more is read
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def feed(self, data: bytes) -> bytes | None:
        """Bytes after a request to upgrade are no HTTP any more: they are returned."""
        if self._ended:
            return None
        if self.body is None:
            self._head_size += len(data)
        else:
            self._framed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._end(cause.answer if isinstance(cause, _NotServedError) else wire.refusal(400), error)
        if self.body is None and self._head_size > _HEAD_MAX:
            self._end(wire.refusal(431), ValueError("the head is too large"))
        elif self._framed > _FRAMING_FACTOR * self._data + _FRAMING_MAX:
            self._end(wire.refusal(400), ValueError("chunked encoding contains too much non-data"))
        return None

    def _end(self, answer: bytes, error: Exception) -> None:
        """Stops reading: the handler answers if a body breaks off, else `answer` is sent."""
        if self._ended:
            return
        self._ended = True
        if self.body is not None and not self.body.complete:
            self.body.fail(error)
        else:
            self._taken(Refusal(answer))

    # --- the parser's calls --------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._url = b""
        self._headers: wire.RawHeaders = []
        self._head_size = 0  # bytes
        self._framed = self._data = 0  # bytes after the head, and those of the body itself
        self._keep_alive = True
        self.body = None

    def on_message_begin(self) -> None:
        self._begin()
        self._begun()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.body is None:  # else it is a trailer, which nobody reads
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser, transport = self._parser, self._transport
        target = self._url.decode("latin-1")
        path, _, query = (target if target[:1] == "/" else _ABSOLUTE.sub("", target)).partition("?")
        broken = "%" in path and _BROKEN_ESCAPE.search(path)
        if "%" in path:
            path = unquote(path)
        fields = wire.decoded(self._headers)
        length = fields.get("content-length", "")
        body = Body(int(length) if length.isdecimal() else 0, transport.hold, transport.release)
        chunked = parser.get_http_version() != "1.0"
        problem = _host_problem(fields.getall("host", ())) if chunked else ""
        if problem or broken:
            raise _NotServedError(wire.refusal(400, problem))
        answer = _unsupported(parser.get_http_version(), fields.get("transfer-encoding", ""))
        if answer:
            raise _NotServedError(answer)
        self.body = body
        method = parser.get_method().decode("ascii")
        if fields.get("expect", "").lower() == "100-continue":
            body.when_wanted(lambda: transport.raw.write(b"HTTP/1.1 100 Continue\r\n\r\n"))
        request = Request(method, path, parse_query(query), fields, body.read, self._peer, body.pieces)
        self._keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._taken(IncomingRequest(request, body, self._keep_alive, chunked))

    def on_body(self, body: bytes) -> None:
        self._data += len(body)
        if self.body is not None:
            self.body.feed(body)

    def on_message_complete(self) -> None:
        if self.body is not None:
            self.body.finish()
        self._ended = not self._keep_alive


def _unsupported(version: str, encoding: str) -> bytes:
    """Answers as Go to versions and transfer encodings that it does not speak; empty for others."""
    if not version.startswith("1."):
        return wire.refusal(505, ": unsupported protocol version")
    if encoding and version != "1.0" and encoding.strip().lower() != "chunked":
        return wire.refusal(501, text="Unsupported transfer encoding")
    return b""


def _host_problem(hosts: Sequence[str]) -> str:
    """Go refuses a request without exactly one host with this text; empty if all is well."""
    if len(hosts) == 1:
        return "" if _HOST.fullmatch(hosts[0]) else ": malformed Host header"
    return ": too many Host headers" if hosts else ": missing required Host header"

"""HTTP/1.1 on one connection: requests read from it, answers written to it, and the tunnel after an upgrade.

A connection has a task, which answers its requests in order. Flow control goes in both directions: a body
makes a fast sender wait, an answer waits for a slow reader. Unreadable messages are answered as Go's net/http
does (server.go, 1.25): plain text and the end of the connection.
"""

import asyncio
import hashlib
import logging
import math
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple, cast
from urllib.parse import unquote

import httptools
from multidict import CIMultiDict

from kubeskew.apiserver.http.request import (
    BodyBrokenError,
    BodyTooLargeError,
    Handler,
    Peer,
    Request,
    Response,
    Upgrade,
    parse_query,
)

_WAITING_MAX = 8  # requests that a client sends ahead

_log = logging.getLogger(__name__)

RawHeaders = list[tuple[bytes, bytes]]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_LINE_BREAKS = str.maketrans("\r\n", "  ")
_BUFFERED_MAX = 1 << 18  # bytes kept for a handler that has not asked for them yet


def status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} status code {status}\r\n".encode()


def fields(content_type: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Line breaks in values become spaces, for a client may have written them."""
    lines = [f"Content-Type: {content_type}\r\n"] if content_type else []
    for name, value in headers:
        if "\n" in value or "\r" in value:
            value = value.translate(_LINE_BREAKS)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("utf-8", "replace")


def refusal(status: int, detail: str = "", text: str = "") -> bytes:
    """Closes the connection. `text` is the body, by default the status with `detail`."""
    said = f"{status} {HTTPStatus(status).phrase}{detail}"
    text = text or said
    first = f"HTTP/1.1 {said}\r\n"
    return f"{first}Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}".encode()


def decoded(raw: RawHeaders) -> CIMultiDict[str]:
    """Names are case-insensitive; repeated headers are kept."""
    return CIMultiDict([(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in raw])


@dataclass(slots=True)
class Limits:
    head_seconds: float = 32.0  # until a request's head is there; as upstream (ReadHeaderTimeout)
    idle_seconds: float = 90.0  # between two requests; as upstream (IdleTimeout)
    stall_seconds: float = 30.0  # after which a client that takes nothing of an answer is disconnected
    date: bytes = b""


class ConnectionTransport:
    """Past `deadline` (loop time) the connection counts as dead."""

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self.raw = transport
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.deadline = math.inf
        self.finishing = False  # no further request is accepted; the answer under way is the last
        self.broken = False  # the client is gone
        self._writable: asyncio.Future[None] | None = None
        self._holds = 0
        peername = transport.get_extra_info("peername")
        self.client_address = str(peername[0]) if isinstance(peername, tuple) else ""  # none of a Unix socket

    def allow(self, seconds: float) -> None:
        """Moves the deadline to `seconds` from now."""
        self.deadline = self.loop.time() + seconds

    def hold(self) -> None:
        """Stops reading from the client until `release` is called as often."""
        self._holds += 1
        if self._holds == 1:
            self.raw.pause_reading()

    def release(self) -> None:
        self._holds -= 1
        if self._holds == 0 and not self.broken:
            self.raw.resume_reading()

    def stop_writing(self) -> None:
        """Called when the client lags: `drain` then waits until `go_on_writing`."""
        self._writable = self.loop.create_future()

    def go_on_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    async def drain(self) -> None:
        """Waits while the client is slow. Raises ConnectionResetError."""
        if self._writable is not None:
            self.allow(self.limits.stall_seconds)
            await self._writable
            self.deadline = math.inf
        if self.broken:
            raise ConnectionResetError("the client is gone")


class ConnectionTunnel:
    """Carries bytes in both directions; a slow reader makes the client wait."""

    def __init__(
        self,
        transport: asyncio.Transport,
        hold: Callable[[], None],
        release: Callable[[], None],
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._hold = hold
        self._release = release
        self._drain = drain
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _BUFFERED_MAX and not self._paused:
            self._paused = True
            self._hold()
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    async def read(self) -> bytes:
        while not self._chunks and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        found = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._release()
        return found

    async def write(self, data: bytes) -> None:
        if self._ended:
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._drain()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


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
        self._client_address = transport.client_address
        self._begun = begun
        self._taken = taken
        self._ended = False  # nothing more is read
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def feed(self, data: bytes) -> bytes | None:
        """Bytes after a request to upgrade are no HTTP any more: they are returned."""
        if self._before_upgrade:
            return self._feed_before_upgrade(data)
        if self._ended:
            return None
        if self.body is None:
            self._head_size += len(data)
        else:
            self._framed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            return self._feed_before_upgrade(rest) if self._before_upgrade else rest
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._end(cause.answer if isinstance(cause, _NotServedError) else refusal(400), error)
        if self.body is None and self._head_size > _HEAD_MAX:
            self._end(refusal(431), ValueError("the head is too large"))
        elif self._framed > _FRAMING_FACTOR * self._data + _FRAMING_MAX:
            self._end(refusal(400), ValueError("chunked encoding contains too much non-data"))
        return None

    def _feed_before_upgrade(self, data: bytes) -> bytes | None:
        """Takes a body that comes before an upgrade, past the parser; returns what follows it."""
        body, rest = data[: self._before_upgrade], data[self._before_upgrade :]
        self._before_upgrade -= len(body)
        if self.body is not None:
            if body:
                self.body.feed(body)
            if not self._before_upgrade:
                self.body.finish()
        return None if self._before_upgrade else rest

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
        self._headers: RawHeaders = []
        self._head_size = 0  # bytes
        self._framed = self._data = 0  # bytes after the head, and those of the body itself
        self._before_upgrade = 0  # bytes of a body that are still to come before an upgrade
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
        fields = decoded(self._headers)
        length = fields.get("content-length", "")
        body = Body(int(length) if length.isdecimal() else 0, transport.hold, transport.release)
        chunked = parser.get_http_version() != "1.0"
        problem = _host_problem(fields.getall("host", ())) if chunked else ""
        if problem or broken:
            raise _NotServedError(refusal(400, problem))
        answer = _unsupported(parser.get_http_version(), fields.get("transfer-encoding", ""))
        if answer:
            raise _NotServedError(answer)
        self.body = body
        method = parser.get_method().decode("ascii")
        if fields.get("expect", "").lower() == "100-continue":
            body.when_wanted(lambda: transport.raw.write(b"HTTP/1.1 100 Continue\r\n\r\n"))
        request = Request(
            *(method, path, parse_query(query), fields, body.read),
            *(self._peer, self._client_address, body.pieces, target),
        )
        self._keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._taken(IncomingRequest(request, body, self._keep_alive, chunked))

    def on_body(self, body: bytes) -> None:
        self._data += len(body)
        if self.body is not None:
            self.body.feed(body)

    def on_message_complete(self) -> None:
        if self.body is not None:
            if self._parser.should_upgrade():
                self._before_upgrade = self.body.announced
            if not self._before_upgrade:
                self.body.finish()
        self._ended = not self._keep_alive


def _unsupported(version: str, encoding: str) -> bytes:
    """Answers as Go to versions and transfer encodings that it does not speak; empty for others."""
    if not version.startswith("1."):
        return refusal(505, ": unsupported protocol version")
    if encoding and version != "1.0" and encoding.strip().lower() != "chunked":
        return refusal(501, text="Unsupported transfer encoding")
    return b""


def _host_problem(hosts: Sequence[str]) -> str:
    """Go refuses a request without exactly one host with this text; empty if all is well."""
    if len(hosts) == 1:
        return "" if _HOST.fullmatch(hosts[0]) else ": malformed Host header"
    return ": too many Host headers" if hosts else ": missing required Host header"


_SKIPPED_MAX = 256 << 10  # bytes of an unread body, read before the answer; as Go
_LINGER_SECONDS = 2.0  # for more of it, so that the client can read the answer
_REFUSED_SECONDS = 0.5  # between a refusal and the end of its connection: no reset may overtake it; as Go
_WHOLE_MAX = 1 << 16  # bytes of a body that is sent together with its head
_BODILESS = (204, 304)


class Outgoing:
    """Writes the answers of one connection in order; `streaming` while one has not ended."""

    def __init__(self, transport: ConnectionTransport) -> None:
        self.streaming = False
        self._transport = transport

    async def whole(self, asked: IncomingRequest, response: Response, body: bytes) -> None:
        transport = self._transport
        lingers = not asked.body.complete and not await self._skipped(asked)
        if lingers or not asked.keep_alive:
            transport.finishing = True
        if transport.broken:
            return
        length = b"" if response.status in _BODILESS else b"Content-Length: %d\r\n" % len(body)
        head = self._head(response, length)
        if asked.request.method == "HEAD":
            transport.raw.write(head)
        elif len(body) <= _WHOLE_MAX:
            transport.raw.write(head + body)
        else:
            transport.raw.writelines((head, body))
        await transport.drain()
        if lingers:
            await _linger(asked.body)

    async def refuse(self, refused: Refusal) -> None:
        """Answers bytes that are no request; it is the last answer of its connection."""
        transport = self._transport
        transport.finishing = True
        transport.allow(transport.limits.stall_seconds)
        transport.raw.write(refused.answer)
        if transport.raw.can_write_eof():
            transport.raw.write_eof()
        await asyncio.sleep(_REFUSED_SECONDS)

    def _head(self, response: Response, framing: bytes) -> bytes:
        parts = (
            status_line(response.status),
            fields(response.content_type, response.headers),
            self._transport.limits.date,
            b"Connection: close\r\n" if self._transport.finishing else b"",
            framing,
            b"\r\n",
        )
        return b"".join(parts)

    async def _skipped(self, asked: IncomingRequest) -> bool:
        """Reads the rest of an unread body before the answer if it is short; False if it is not."""
        if not 0 < asked.body.announced <= _SKIPPED_MAX or "expect" in asked.request.headers:
            return False
        self._transport.allow(self._transport.limits.stall_seconds)
        await asked.body.skip()
        self._transport.deadline = math.inf
        return asked.body.complete

    async def stream(self, asked: IncomingRequest, response: Response, pieces: AsyncIterator[bytes]) -> None:
        """Writes pieces as they come, until they end or the client is gone; only the head for a HEAD.

        Raises ConnectionError where they cannot go on, so that the client sees that something is missing.

        """
        transport, length = self._transport, response.length
        chunked = asked.chunked and length is None
        self.streaming = True
        if not asked.keep_alive or not asked.body.complete or (length is None and not chunked):
            transport.finishing = True
        framing = b"" if length is None else b"Content-Length: %d\r\n" % length
        try:
            transport.raw.write(
                self._head(response, b"Transfer-Encoding: chunked\r\n" if chunked else framing)
            )
            if asked.request.method == "HEAD":
                return
            async for piece in pieces:
                if piece:
                    self._write(piece, chunked=chunked)
                    await transport.drain()
            if chunked:
                transport.raw.write(b"0\r\n\r\n")
        finally:
            self.streaming = False
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    def _write(self, piece: bytes, *, chunked: bool) -> None:
        transport = self._transport.raw
        if not chunked:
            transport.write(piece)
        elif len(piece) <= _WHOLE_MAX:
            transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            transport.writelines((b"%x\r\n" % len(piece), piece, b"\r\n"))

    async def hand_over(self, response: Response, upgrade: Upgrade, tunnel: ConnectionTunnel | None) -> None:
        """Grants an upgrade and runs its handler until it ends. Raises BodyBrokenError."""
        if tunnel is None:
            await upgrade.aclose()
            raise BodyBrokenError("an upgrade that was not asked for")
        transport = self._transport
        transport.finishing = False  # the head says Upgrade
        response.headers.append(("Connection", "Upgrade"))
        response.content_type = ""
        transport.raw.write(self._head(response, b""))
        transport.finishing = self.streaming = True
        await upgrade.talk(tunnel)


async def _linger(body: Body) -> None:
    """Reads on what a client still sends, so that it does not lose the answer to a reset."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await body.skip()


class Connection(asyncio.Protocol):
    """Speaks the protocol of one connection; it puts itself into `connections` and takes itself out."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        connections: "dict[Connection, None]",
        lost: Callable[[], None],
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._connections = connections
        self._lost = lost
        self._asked: deque[IncomingRequest | Refusal] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._tunnel: ConnectionTunnel | None = None
        self._answered: IncomingRequest | None = None  # the request that is being answered
        self._ahead = False

    @property
    def deadline(self) -> float:
        """The connection counts as dead after this loop time."""
        return self._transport.deadline

    # --- the transport's calls -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        kept = cast("asyncio.Transport", transport)
        self._transport = ConnectionTransport(kept, self._limits)
        self._transport.allow(self._limits.head_seconds)
        self._incoming = Incoming(self._transport, _peer(kept), self._begun, self._taken)
        self._outgoing = Outgoing(self._transport)
        self._connections[self] = None
        self._task = self._transport.loop.create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.broken = True
        self._connections.pop(self, None)
        if self._incoming.body is not None:
            self._incoming.body.fail(ConnectionResetError("the client is gone"))
        if self._tunnel is not None:
            self._tunnel.end()
        self._transport.go_on_writing()
        if self._outgoing.streaming or self._answered is None or self._answered.request.ends_with_client:
            self._task.cancel()
        self._lost()

    def data_received(self, data: bytes) -> None:
        if self._tunnel is not None:
            self._tunnel.feed(data)
        else:
            rest = self._incoming.feed(data)
            if rest is not None:
                self._upgrade(rest)

    def pause_writing(self) -> None:
        self._transport.stop_writing()

    def resume_writing(self) -> None:
        self._transport.go_on_writing()

    # --- what comes in -------------------------------------------------------------------------------------

    def _begun(self) -> None:
        if self._answered is None:
            self._transport.allow(self._limits.head_seconds)

    def _taken(self, asked: IncomingRequest | Refusal) -> None:
        self._asked.append(asked)
        if len(self._asked) > _WAITING_MAX and not self._ahead:
            self._ahead = True
            self._transport.hold()
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _upgrade(self, rest: bytes) -> None:
        """Nothing after a request to upgrade is HTTP, granted or not."""
        transport = self._transport
        self._tunnel = ConnectionTunnel(transport.raw, transport.hold, transport.release, transport.drain)
        if rest:
            self._tunnel.feed(rest)

    # --- ends ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Closes after the answer under way."""
        self._transport.finishing = True
        if self._answered is None and not self._asked:
            self._transport.raw.close()

    def abort(self) -> None:
        self._transport.raw.abort()

    # --- answering -----------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        transport = self._transport
        try:
            while asked := await self._next():
                if isinstance(asked, Refusal):
                    await self._outgoing.refuse(asked)
                else:
                    await self._answer(asked)
                if transport.finishing or transport.broken:
                    break
                transport.allow(self._limits.idle_seconds)
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            _log.exception("a connection failed")
        finally:
            transport.allow(self._limits.stall_seconds)
            transport.raw.close()

    async def _next(self) -> IncomingRequest | Refusal | None:
        transport = self._transport
        while not self._asked:
            if transport.finishing or transport.broken:
                return None
            self._arrival = transport.loop.create_future()
            await self._arrival
        if self._ahead and len(self._asked) <= _WAITING_MAX:
            self._ahead = False
            transport.release()
        transport.deadline = math.inf
        return self._asked.popleft()

    async def _answer(self, asked: IncomingRequest) -> None:
        self._answered = asked
        try:
            response = await self._handler(asked.request)
            if isinstance(response.body, Upgrade):
                await self._outgoing.hand_over(response, response.body, self._tunnel)
            elif isinstance(response.body, bytes):
                await self._outgoing.whole(asked, response, response.body)
            else:
                await self._outgoing.stream(asked, response, response.body)
        finally:
            self._answered = None


def _peer(transport: asyncio.Transport) -> Peer | None:
    """None if the client has shown no certificate."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    subject = [pair for names in certificate["subject"] for pair in names]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    groups = tuple(value for kind, value in subject if kind == "organizationName")
    whole = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    until = float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    return Peer(name, groups, hashlib.sha256(whole).hexdigest(), until, whole)

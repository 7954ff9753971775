"""One connection: requests in, one after the other, answers out.

httptools parses; a task per connection answers in order. What a client may hold up is bounded: its head by
size and time, its body by `Body`, a stream by how long nothing of it is taken.
"""

import asyncio
import hashlib
import logging
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast
from urllib.parse import unquote

import httptools

from apiserver.request import BodyBrokenError, Handler, Peer, Request, Response, Upgrade, parse_query
from apiserver.serving import heads
from apiserver.serving.body import Body
from apiserver.serving.tunnel import ConnectionTunnel

_HEAD_MAX = (1 << 20) + 4096  # bytes; as upstream (MaxHeaderBytes and Go's slack)
_SKIPPED_MAX = 256 << 10  # of a body that nobody read, before the answer; as Go
_LINGER_SECONDS = 2.0  # for more of it, so that the client gets to read the answer
_REFUSED_SECONDS = 0.5  # between the refusal of what is no HTTP and the end: no reset may overtake it; as Go
_WAITING_MAX = 8  # requests that a client sends ahead
_WHOLE_MAX = 1 << 16  # bodies up to so many bytes are sent together with their head

_ABSOLUTE = re.compile(r"^https?://[^/?]*")  # before a path, as clients write it for a proxy
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Limits:
    """Of every connection of a server, and the `Date` header of the moment."""

    head_seconds: float = 32.0  # until a request's head is there; as upstream (ReadHeaderTimeout)
    idle_seconds: float = 90.0  # between two requests; as upstream (IdleTimeout)
    stall_seconds: float = 30.0  # a client that takes nothing of an answer for so long is let go
    date: bytes = b""


class _Asked(NamedTuple):
    """A request and what its answer must know of how it came."""

    request: Request
    body: Body
    keep_alive: bool
    chunked: bool  # the client understands chunks (HTTP/1.1)


class Connection(asyncio.Protocol):
    """The protocol of one connection; it puts itself into `connections` and takes itself out."""

    def __init__(
        self, handler: Handler, limits: Limits, connections: "set[Connection]", lost: Callable[[], None]
    ) -> None:
        self.deadline = math.inf  # loop time at which the connection counts as dead
        self._handler = handler
        self._limits = limits
        self._connections = connections
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._asked: deque[_Asked] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._tunnel: ConnectionTunnel | None = None
        self._busy = self._finishing = self._broken = self._streaming = self._ahead = self._refused = False
        self._holds = 0
        self._begin()

    # --- the transport's calls -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peer = _peer(self._transport)
        self.deadline = self._loop.time() + self._limits.head_seconds
        self._connections.add(self)
        self._task = self._loop.create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._broken = True
        self._connections.discard(self)
        gone = ConnectionResetError("the client is gone")
        if self._body is not None:
            self._body.fail(gone)
        if self._tunnel is not None:
            self._tunnel.end()
        self.resume_writing()
        if self._streaming or not self._busy:
            self._task.cancel()
        self._lost()

    def data_received(self, data: bytes) -> None:
        if self._tunnel is not None:
            self._tunnel.feed(data)
        elif not self._refused:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self._body is None:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(heads.refusal(400), error)
        if self._body is None and self._head_size > _HEAD_MAX:
            self._refuse(heads.refusal(431), ValueError("the head is too large"))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _hold(self) -> None:
        """Let the client wait, until `_release` is called as often."""
        self._holds += 1
        if self._holds == 1:
            self._transport.pause_reading()

    def _release(self) -> None:
        self._holds -= 1
        if self._holds == 0 and not self._broken:
            self._transport.resume_reading()

    # --- the parser's calls --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Ready for the head of a request."""
        self._url = b""
        self._headers: heads.RawHeaders = []
        self._head_size = 0
        self._body: Body | None = None

    def on_message_begin(self) -> None:
        self._begin()
        if not self._busy:
            self.deadline = self._loop.time() + self._limits.head_seconds

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser, transport = self._parser, self._transport
        path, _, query = _ABSOLUTE.sub("", self._url.decode("latin-1")).partition("?")
        broken = "%" in path and _BROKEN_ESCAPE.search(path)
        if "%" in path:
            path = unquote(path)
        fields = heads.decoded(self._headers)
        length = fields.get("content-length", "")
        body = Body(int(length) if length.isdecimal() else 0, self._hold, self._release)
        chunked = parser.get_http_version() != "1.0"
        problem = _host_problem(fields.getall("host", ())) if chunked else ""
        if problem or broken:
            self._refuse(heads.refusal(400, problem), ValueError(problem or "the path is not encoded right"))
            self._body = body  # of nobody
            return
        self._body = body
        method = parser.get_method().decode("ascii")
        if fields.get("expect", "").lower() == "100-continue":
            body.when_wanted(lambda: transport.write(b"HTTP/1.1 100 Continue\r\n\r\n"))
        request = Request(method, path, parse_query(query), fields, body.read, self._peer)
        self._asked.append(_Asked(request, body, parser.should_keep_alive(), chunked))
        if len(self._asked) > _WAITING_MAX and not self._ahead:
            self._ahead = True
            self._hold()
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def on_body(self, body: bytes) -> None:
        if self._body is not None:
            self._body.feed(body)

    def on_message_complete(self) -> None:
        if self._body is not None:
            self._body.finish()

    # --- ends ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Answer what has been asked, then close."""
        self._finishing = True
        if not self._busy and not self._asked:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _refuse(self, answer: bytes, error: Exception) -> None:
        """What came is no HTTP: say so unless an answer is under way, and close."""
        if self._body is not None and not self._body.complete:
            self._body.fail(error)  # its handler answers
            self._finishing = True
        elif not self._busy and not self._asked:
            self._refused = True
            self._transport.write(answer)
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._loop.call_later(_REFUSED_SECONDS, self._transport.close)
        self._finishing = True

    def _upgrade(self, rest: bytes) -> None:
        """After a request to upgrade nothing more is HTTP, whether it is granted or not."""
        self._finishing = True
        self._tunnel = ConnectionTunnel(self._transport, self._hold, self._release, self._drain)
        if rest:
            self._tunnel.feed(rest)

    # --- answering -----------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Answer requests in order until the connection ends."""
        try:
            while asked := await self._next():
                await self._answer(asked)
                if self._finishing and not self._asked:
                    break
                self.deadline = self._loop.time() + self._limits.idle_seconds
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            _log.exception("a connection failed")
        finally:
            self._transport.close()

    async def _next(self) -> _Asked | None:
        while not self._asked:
            if self._finishing or self._broken:
                return None
            self._arrival = self._loop.create_future()
            await self._arrival
        if self._ahead and len(self._asked) <= _WAITING_MAX:
            self._ahead = False
            self._release()
        self._busy = True
        self.deadline = math.inf
        return self._asked.popleft()

    async def _answer(self, asked: _Asked) -> None:
        try:
            response = await self._handler(asked.request)
            if isinstance(response.body, Upgrade):
                await self._hand_over(response, response.body)
            elif isinstance(response.body, bytes):
                await self._whole(asked, response, response.body)
            else:
                await self._stream(asked, response, response.body)
        finally:
            self._busy = False

    async def _whole(self, asked: _Asked, response: Response, body: bytes) -> None:
        lingers = not asked.body.complete and not await self._skipped(asked)
        if lingers or not asked.keep_alive:
            self._finishing = True
        if self._broken:
            return
        length = b"" if response.status == 304 else b"Content-Length: %d\r\n" % len(body)
        head = self._head(response, length)
        if asked.request.method == "HEAD":
            self._transport.write(head)
        elif len(body) <= _WHOLE_MAX:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        await self._drain()
        if lingers:
            await self._linger(asked.body)

    def _head(self, response: Response, framing: bytes) -> bytes:
        parts = (
            heads.status_line(response.status),
            heads.fields(response.content_type, response.headers),
            self._limits.date,
            b"Connection: close\r\n" if self._finishing else b"",
            framing,
            b"\r\n",
        )
        return b"".join(parts)

    async def _skipped(self, asked: _Asked) -> bool:
        """Whether the rest of a body that nobody read is short enough to be taken in before the answer."""
        if not 0 < asked.body.announced <= _SKIPPED_MAX or "expect" in asked.request.headers:
            return False
        self.deadline = self._loop.time() + self._limits.stall_seconds
        await asked.body.skip()
        self.deadline = math.inf
        return asked.body.complete

    async def _linger(self, body: Body) -> None:
        """Take in what a client still sends, so that it does not lose the answer to a reset."""
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                await body.skip()
        except TimeoutError:
            pass

    async def _stream(self, asked: _Asked, response: Response, chunks: AsyncIterator[bytes]) -> None:
        """Write chunks as they come, until they end or the client is gone; only the head for a HEAD."""
        self._streaming = True
        if not asked.keep_alive or not asked.chunked or not asked.body.complete:
            self._finishing = True
        try:
            self._transport.write(
                self._head(response, b"Transfer-Encoding: chunked\r\n" if asked.chunked else b"")
            )
            if asked.request.method == "HEAD":
                return
            async for chunk in chunks:
                if chunk:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if asked.chunked else chunk)
                    await self._drain()
            if asked.chunked:
                self._transport.write(b"0\r\n\r\n")
        finally:
            self._streaming = False
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()

    async def _drain(self) -> None:
        """Wait while the client is slow to take what it gets. Raises ConnectionResetError."""
        if self._writable is not None:
            self.deadline = self._loop.time() + self._limits.stall_seconds
            await self._writable
            self.deadline = math.inf
        if self._broken:
            raise ConnectionResetError("the client is gone")

    async def _hand_over(self, response: Response, upgrade: Upgrade) -> None:
        tunnel = self._tunnel
        if tunnel is None:
            raise BodyBrokenError("an upgrade that was not asked for")
        self._finishing = False  # the head says Upgrade
        response.headers.append(("Connection", "Upgrade"))
        response.content_type = ""
        self._transport.write(self._head(response, b""))
        self._finishing = self._streaming = True
        await upgrade.talk(tunnel)


def _host_problem(hosts: Sequence[str]) -> str:
    """What Go says of a request without exactly one host."""
    if len(hosts) == 1:
        return ""
    return ": too many Host headers" if hosts else ": missing required Host header"


def _peer(transport: asyncio.Transport) -> Peer | None:
    """The verified client certificate's subject, if the connection has one."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    subject = [pair for names in certificate["subject"] for pair in names]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    groups = tuple(value for kind, value in subject if kind == "organizationName")
    whole = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return Peer(name, groups, hashlib.sha256(whole).hexdigest())

"""The proxy on loopback between a program and the API servers, in which faults happen.

It speaks HTTP/1.1 over TLS. Requests and answers go through unchanged, but for the headers that concern one
connection alone. Without a fault, nothing is read but the heads. Where the API server cannot be reached, and
where a fault loses something, the program's connection is reset.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

import httptools
import orjson

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.client.transport import (
    HTTPResponse,
    HTTPTransport,
    Request,
    Transport,
    failing_over,
)
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.fault import Call, call_of
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.protobuf_wire import encode_status
from kubeskew.apimachinery.streaming.resets import reset
from kubeskew.shim.identity import CertificateHolder, user_of
from kubeskew.shim.leadership import Leadership
from kubeskew.shim.traffic import Traffic
from kubeskew.shim.watch_events import events, stream_of

ADDRESS: Final = "127.0.0.1"
PROTOBUF: Final = b"application/vnd.kubernetes.protobuf"
_BODY_MAX: Final = 64 << 20  # a request with more is no client's of Kubernetes
_WRITE_HIGH_WATER: Final = 1 << 20
_JOINED: Final = 16 << 10  # bytes: what is less goes out in one record
_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_NO_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_LAST_CHUNK: Final = b"0\r\n\r\n"
# Headers of one connection (RFC 9110, 7.6.1), and those that are written for the next one.
HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    b"content-length", b"host", b"expect",
})  # fmt: skip
_IN_ANSWERS: Final = HOP_BY_HOP - {b"content-length"}

log = logging.getLogger(__name__)
Header = tuple[bytes, bytes]


class Asked(NamedTuple):
    """A request of the program."""

    method: str
    target: str
    headers: list[Header]
    body: bytes | None
    keep_alive: bool
    old: bool  # HTTP/1.0, which knows no chunks


def passing(headers: Iterable[Header], dropped: frozenset[bytes]) -> list[Header]:
    """Leaves out headers that concern the connection, which may name more of them."""
    pairs = [*headers]
    lowered = [(name.lower(), name, value) for name, value in pairs]
    for name, _, value in lowered:
        if name == b"connection":
            dropped = dropped | {each.strip().lower() for each in value.split(b",")}
    return [(name, value) for lower, name, value in lowered if lower not in dropped]


class Proxy:
    """Takes the connections of one program. `start` opens it, `close` ends all that goes through it."""

    def __init__(
        self, config: Kubeconfig, leadership: Leadership, traffic: Traffic, injector: Injector | None = None
    ) -> None:
        self.leadership = leadership
        self.traffic = traffic
        self.injector = injector
        self.holder = CertificateHolder(config.certificate)
        self._own = _transport(replace(config, token=""))
        self._others = _transport(replace(config, certificate=b"", key=b"", token=""))
        self._server: asyncio.Server | None = None
        self.connections: dict[ProgramConnection, None] = {}
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://{ADDRESS}:{self.port}"

    async def start(self, context: ssl.SSLContext) -> None:
        """Listens on a free port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ProgramConnection(self), ADDRESS, 0, ssl=context, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in [*self.connections]:
            connection.abort()
        await self._own.close()
        await self._others.close()

    def transport(self, connection: "ProgramConnection", authorization: str) -> Transport:
        """A request with credentials of its own goes without our certificate, and so does a stranger's."""
        if not authorization and connection.is_own():
            return self._own
        return self._others

    async def send(self, connection: "ProgramConnection", asked: Asked, call: Call | None) -> HTTPResponse:
        """Raises StatusError for an answer that a fault gives, CONNECTION_ERRORS without one."""
        transport = self.transport(connection, _authorization(asked.headers))
        request = Request(
            asked.method, asked.target, body=asked.body, lines=passing(asked.headers, HOP_BY_HOP)
        )
        injector = self.injector
        if injector is None or injector.decider is None:
            response = await transport(request)
        else:
            response = await injector.inject(call, lambda: transport(request), _discard)
        answer = cast("HTTPResponse", response)
        if self.leadership.is_write(asked.method, asked.target, asked.body) and answer.status < 300:
            self.leadership.written(asked.body)
        return answer

    def call(self, asked: Asked) -> Call | None:
        """None where nobody wants to know: without faults only watches are looked at, and reads as long as
        the program's informers have not settled."""
        faulty = self.injector is not None and self.injector.decider is not None
        if not faulty and (asked.method != "GET" or ("watch=" not in asked.target and self.traffic.settled)):
            return None
        return call_of(asked.method, asked.target, asked.body, user_of(_authorization(asked.headers)))


def _transport(config: Kubeconfig) -> Transport:
    return failing_over([HTTPTransport(each.server, each.ssl_context()) for each in config.each()])


async def _discard(response: Any) -> None:
    await response.close()


def _authorization(headers: Iterable[Header]) -> str:
    return next((v.decode("latin-1") for name, v in headers if name.lower() == b"authorization"), "")


class ProgramConnection(asyncio.Protocol):
    """One connection of the program, with one request under way at a time."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Asked] = deque()
        self._task: asyncio.Task[None] | None = None
        self._own: bool | None = None
        self._room: asyncio.Future[None] | None = None  # while what was written has not gone out
        self._target = b""
        self._headers: list[Header] = []
        self._body: list[bytes] = []
        self._size = 0

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(_WRITE_HIGH_WATER)
        self._proxy.connections[self] = None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            log.debug("no request that can be passed on: %s", error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy.connections.pop(self, None)
        self._transport = None
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def abort(self) -> None:
        """Resets the connection."""
        if self._transport is not None:
            reset(self._transport)

    def is_own(self) -> bool:
        """True if the peer has shown the certificate of the component."""
        if self._own is None:
            tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
            self._own = self._proxy.holder.is_shown(tls)
        return self._own

    # -- the parser's callbacks

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body, self._size = b"", [], [], 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if not self._target.startswith(b"/"):
            self.abort()
        elif any(name.lower() == b"expect" for name, _ in self._headers) and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._size += len(body)
        if self._size > _BODY_MAX:
            self.abort()

    def on_message_complete(self) -> None:
        parser = self._parser
        asked = Asked(
            parser.get_method().decode(),
            self._target.decode("latin-1"),
            self._headers,
            b"".join(self._body) if self._body else None,
            parser.should_keep_alive(),
            parser.get_http_version() == "1.0",
        )
        self._body = []
        self._waiting.append(asked)
        if self._task is None and self._transport is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve())

    # -- answers

    async def _serve(self) -> None:
        """Answers the requests that have come. After any error that is not foreseen the connection is reset:
        nobody would answer what comes next on it.
        """
        answered = False
        try:
            while self._waiting:
                await self._answer(self._waiting.popleft())
            answered = True
        finally:
            self._task = None
            if not answered:
                self.abort()

    async def _answer(self, asked: Asked) -> None:
        proxy = self._proxy
        call = proxy.call(asked)
        counted = call if proxy.traffic.counts(call, asked.target) else None
        if counted is not None:
            proxy.traffic.begun(counted, asked.target)
        try:
            response = await proxy.send(self, asked, call)
            try:
                await self._pass(asked, call, response)
            finally:
                await response.close()
        except StatusError as error:
            self._refuse(asked, error)
        except CONNECTION_ERRORS as error:
            log.debug("%s %s: %s", asked.method, asked.target, error)
            self.abort()
        finally:
            if counted is not None:
                proxy.traffic.ended(counted)

    async def _pass(self, asked: Asked, call: Call | None, response: HTTPResponse) -> None:
        headers = passing(response.headers.lines, _IN_ANSWERS)
        if asked.method == "HEAD" or response.status in _NO_BODY:
            return self._put(asked.keep_alive, _head(response.status, headers, asked.keep_alive))
        chunked = "content-length" not in response.headers and not asked.old
        keep_alive = asked.keep_alive and (chunked or "content-length" in response.headers)
        if chunked:
            headers.append((b"Transfer-Encoding", b"chunked"))
        head = _head(response.status, headers, keep_alive)
        injector = self._proxy.injector
        if injector is not None and call is not None and call.verb == "watch" and response.status == 200:
            self._put(True, head)
            await self._pass_events(injector, call, response, chunked)
            return self._put(keep_alive, _LAST_CHUNK if chunked else b"")
        parts = [head]
        while not response.finished:
            self._put(True, *parts, *_framed(response.arrived(), chunked))
            await self._has_room()
            parts = [*_framed(await response.chunk(), chunked)]
        return self._put(
            keep_alive, *parts, *_framed(response.arrived(), chunked), _LAST_CHUNK if chunked else b""
        )

    async def _pass_events(
        self, injector: Injector, call: Call, response: HTTPResponse, chunked: bool
    ) -> None:
        stream = stream_of(response.headers.get("content-type", ""))
        pieces = events(response.chunks(), stream, lambda: injector.holds_events)
        injector.cuts[self.abort] = None
        try:
            async with aclosing(injector.lines(call, pieces, form=stream)) as passed:
                async for piece in passed:
                    self._put(True, *_framed(piece, chunked))
                    await self._has_room()
        finally:
            injector.cuts.pop(self.abort, None)

    def _refuse(self, asked: Asked, error: StatusError) -> None:
        """Answers with an error that no server gave."""
        status = error.status()
        accept = next((value for name, value in asked.headers if name.lower() == b"accept"), b"")
        if PROTOBUF in accept and b"json" not in accept and b"*/*" not in accept:
            kind, content = PROTOBUF, encode_status(status)
        else:
            kind, content = b"application/json", orjson.dumps(status)
        headers = [(b"Content-Type", kind), (b"Content-Length", b"%d" % len(content))]
        if error.retry_after is not None:
            headers.append((b"Retry-After", b"%d" % error.retry_after))
        self._put(asked.keep_alive, _head(error.code, headers, asked.keep_alive), content)

    def _put(self, keep_alive: bool, *parts: bytes) -> None:
        if self._transport is None:
            raise ConnectionResetError("the program has closed the connection")
        if len(parts) == 1 or sum(map(len, parts)) <= _JOINED:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        if not keep_alive:
            self._transport.close()

    async def _has_room(self) -> None:
        if self._room is not None:
            await self._room


def _head(status: int, headers: Iterable[Header], keep_alive: bool) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (status, _PHRASES.get(status, b"Unknown"))]
    lines += [b"%b: %b" % header for header in headers]
    if not keep_alive:
        lines.append(b"Connection: close")
    return b"\r\n".join([*lines, b"\r\n"])


def _framed(piece: bytes, chunked: bool) -> tuple[bytes, ...]:
    if not piece:
        return ()
    return (b"%x\r\n" % len(piece), piece, b"\r\n") if chunked else (piece,)

"""The proxy to a backend: one HTTP/1.1 exchange per connection, with streamed answers and upgrades as pipes.

Upgrades need a connection per request; logs and proxies are rare enough to do the same.

Source: k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go and k8s.io/apiserver/pkg/util/proxy
(streamtranslator.go, translatinghandler.go), 1.36.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apimachinery.streaming import Pipe, until_one_ends
from kubeskew.apimachinery.streaming.websocket import WebSocket, accept_key
from kubeskew.apiserver.authentication.authenticator import BEARER_PROTOCOL
from kubeskew.apiserver.http.request import BodyBrokenError, Request, Response, Tunnel, Upgrade, no_pieces
from kubeskew.apiserver.storage.encoding import dumps

_PATH = "/:@!$&'()*+,;=-._~"
_PIECE = 1 << 16
_SWITCHING, _CODE_DIGITS = 101, 3

Headers = list[tuple[str, str]]
_HEAD_LIMIT = 1 << 18
_HEAD_SECONDS = 30.0
_DIAL_SECONDS = 10.0
_WITH_BODY = ("POST", "PUT", "PATCH")
_PROTOCOLS = "sec-websocket-protocol"
_FORWARDED_FOR = "x-forwarded-for"
_V5 = "v5.channel.k8s.io"
_ERROR_CHANNEL = b"\x03"
_TEXT_LIMIT = 2_000
# Headers of this hop alone, or about the client: not for the backend.
_KEPT_BACK = frozenset(
    {
        "host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
        "transfer-encoding", "upgrade", "authorization", "content-length", "expect",
    }
)  # fmt: skip
_KEPT_BACK_PREFIXES = ("impersonate-", "x-remote-")
_KEPT_BACK_ANSWERS = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length"})


class BackendPipe:
    """Carries the bytes after an answer's head, or the body of an answer that ends with its connection."""

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
    """Callers read `pieces` or use `pipe`, then `close`."""

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
        """In bytes; None if the body ends with the connection."""
        announced = self.header("content-length")
        chunked = "chunked" in self.header("transfer-encoding").lower()
        return int(announced) if announced.isdecimal() and not chunked else None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Closes the connection at the end of the body. Raises ConnectionResetError."""
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
        """Reads at most `limit` bytes and closes the connection. Raises ConnectionResetError."""
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) >= limit:
                break
        self.close()
        return bytes(found[:limit])

    async def text(self, limit: int) -> str:
        """The text has at most `limit` bytes; it is empty if the answer breaks off."""
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
    """Raises ValueError for wrong framing, IncompleteReadError for an early end."""
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
    """Waits for the head of an answer. Raises ValueError if it is no HTTP, and the errors of the reader."""
    status = 100
    while 100 <= status < 200 and status != _SWITCHING:  # interim answers
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


@dataclass(frozen=True, slots=True)
class Address:
    """Without a context it is plain HTTP; `name` is the name that the backend's certificate must have. With a
    `network` it is an address in that.
    """

    host: str
    port: int
    context: ssl.SSLContext | None = None
    name: str = ""
    network: NetworkAgent | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.context is not None else "http"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class DialError(Exception):
    """The backend cannot be reached; the text is Go's."""


Body = bytes | AsyncIterator[bytes]


async def send(
    address: Address,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: Body = b"",
    *,
    head_seconds: float | None = _HEAD_SECONDS,
) -> BackendResponse:
    """Waits for the answer's head, however long the body still takes. Raises DialError.

    `headers` say how the body is framed: by its length or in chunks. A Host among them is sent instead of the
    address.
    """
    reader, writer = await _dial(address)
    headers = list(headers)
    if not any(name == "Host" for name, _ in headers):
        headers.insert(0, ("Host", str(address)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n"
    sending: asyncio.Task[None] | None = None
    try:
        writer.write(head.encode("latin-1", "replace"))
        if isinstance(body, bytes):
            writer.write(body)
        else:
            chunked = ("Transfer-Encoding", "chunked") in headers
            sending = asyncio.create_task(_pump(writer, body, chunked=chunked), name="send a body")
        async with asyncio.timeout(head_seconds):
            return await read_answer(reader, writer, method, sending)
    except BaseException as error:
        if sending is not None:
            sending.cancel()
        writer.close()
        if isinstance(error, OSError | TimeoutError | asyncio.IncompleteReadError | ValueError | _TooLong):
            raise DialError("EOF") from error
        raise


_TooLong = asyncio.LimitOverrunError


async def _dial(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    name = address.name or None if address.context is not None else None
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            if address.network is not None:
                connected = await address.network.dial(None, address.host, address.port)
                if address.context is not None:
                    name = name or address.host
                return await asyncio.open_connection(
                    sock=connected, ssl=address.context, server_hostname=name, limit=_HEAD_LIMIT
                )
            return await asyncio.open_connection(
                address.host, address.port, ssl=address.context, server_hostname=name, limit=_HEAD_LIMIT
            )
    except ssl.SSLCertVerificationError as error:
        raise DialError(f"tls: failed to verify certificate: x509: {error.verify_message}") from error
    except (OSError, TimeoutError, ValueError) as error:
        raise DialError(dial_failure(error, address.host, address.port)) from error


def dial_failure(error: BaseException, host: str, port: int) -> str:
    """The words of Go's dialer for a connection that did not come to be."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    return f"dial tcp {Address(host, port)}: {_words(error)}"


async def _pump(writer: asyncio.StreamWriter, body: AsyncIterator[bytes], *, chunked: bool) -> None:
    """Breaks off the connection if the body breaks off."""
    try:
        async for piece in body:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")
    except BodyBrokenError:
        writer.close()
    except OSError:
        pass  # the backend has read enough of it: its answer says why


def _words(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return f"connect: {(getattr(error, 'strerror', None) or str(error)).lower()}"


async def join_pipes(one: Pipe, other: Pipe) -> None:
    async def carry(source: Pipe, target: Pipe) -> None:
        with suppress(ConnectionError):
            while data := await source.read():
                await target.write(data)

    await until_one_ends(carry(one, other), carry(other, one))


def is_upgrade(request: Request) -> bool:
    return "upgrade" in request.headers.get("connection", "").lower() and "upgrade" in request.headers


def is_websocket(request: Request) -> bool:
    return is_upgrade(request) and "websocket" in request.headers["upgrade"].lower()


def offered_protocols(request: Request) -> list[str]:
    """The header may come several times."""
    values = [value for name, value in request.headers.items() if name.lower() == _PROTOCOLS]
    return [name.strip() for value in values for name in value.split(",")]


async def pass_upgrade(request: Request, address: Address, target: str) -> Response:
    """Connects the client with the backend. A refusal of the upgrade is answered as it is."""
    wants_v5 = is_websocket(request) and _V5 in offered_protocols(request)
    try:
        answer = await send(address, request.method, target, [*_upgrade_headers(request)])
    except DialError as error:
        if wants_v5:
            why = f'error sending request: Post "{address.scheme}://{address}{target}": {error}'
            return _error_inside(request, why)
        raise StatusError(500, "", f"error dialing backend: {error}") from None
    if wants_v5 and answer.status != 101:
        text = await answer.text(_TEXT_LIMIT)
        return _error_inside(request, f"unable to upgrade connection: {text}")
    return await switched(answer)


async def switched(answer: BackendResponse) -> Response:
    """Answers a client that wants to upgrade: with a pipe, or with the backend's refusal."""
    if answer.status == 101:
        kept = _without(answer.headers, frozenset({"connection"}))
        return Response(101, Upgrade(_joined(answer), answer.close), headers=kept)
    refusal = streamed(answer)
    refusal.body = (await answer.text(_TEXT_LIMIT)).encode()  # short: read at once, even if the client goes
    return refusal


def _joined(answer: BackendResponse) -> Callable[[Tunnel], Awaitable[None]]:
    async def talk(tunnel: Tunnel) -> None:
        try:
            await join_pipes(tunnel, answer.pipe)
        finally:
            answer.close()

    return talk


def _error_inside(request: Request, why: str) -> Response:
    """Errors go through the upgraded connection: the server upgrades before it knows if the backend does."""
    accepted = accept_key(request.headers.get("sec-websocket-key", ""))
    headers = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", accepted),
        ("Sec-WebSocket-Protocol", _V5),
    ]
    status = {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {why}",
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    }

    async def talk(tunnel: Tunnel) -> None:
        socket = WebSocket(tunnel)
        await socket.send(b"\x01" if "stdout" in request.query else b"\x03")
        await socket.send(_ERROR_CHANNEL + dumps(status))
        await socket.close()

    return Response(101, Upgrade(talk), headers=headers)


async def pass_on(
    request: Request, address: Address, target: str, instead: Sequence[tuple[str, str]] = ()
) -> BackendResponse:
    """Sends the headers `instead` of those that the client sent by these names. Raises 503 if the backend
    cannot be reached.
    """
    kept = _without(passed_on(request), frozenset(name.lower() for name, _ in instead))
    headers = [*_host(request), ("Connection", "close"), *kept, *instead, *framing(request)]
    request.ends_with_client = True
    try:
        return await send(address, request.method, target, headers, request.pieces(), head_seconds=None)
    except DialError as error:
        raise StatusError(503, "ServiceUnavailable", f"error trying to reach service: {error}") from None


def target_of(request: Request) -> str:
    """Path and query as a backend gets them."""
    query = urlencode([(key, value) for key, values in request.query.items() for value in values])
    path = quote(request.path, safe=_PATH)
    return f"{path}?{query}" if query else path


def framing(request: Request) -> Headers:
    """Requests go to the backend with the framing that they came with."""
    length = request.headers.get("content-length", "")
    if length:
        return [("Content-Length", length)]
    if "transfer-encoding" in request.headers:
        return [("Transfer-Encoding", "chunked")]
    return [("Content-Length", "0")] if request.method in _WITH_BODY else []


def streamed(answer: BackendResponse, **changed: str) -> Response:
    """Streams the body; `changed` may have another `content_type`."""
    kept = _without(answer.headers, _KEPT_BACK_ANSWERS | {"content-type", "date"})
    content_type = changed.get("content_type") or answer.header("content-type") or "text/plain"
    if answer.status in {204, 304}:
        answer.close()
        return Response(answer.status, b"", content_type, kept)
    if answer.bodiless:  # of a HEAD, with the length that the body would have
        answer.close()
        return Response(answer.status, no_pieces(), content_type, kept, answer.length)
    return Response(answer.status, _Pieces(answer), content_type, kept, answer.length)


class _Pieces(AsyncGenerator[bytes, None]):
    """The body as it comes. An answer that nobody has begun to read is closed, too."""

    def __init__(self, answer: BackendResponse) -> None:
        self._answer = answer
        self._pieces = answer.pieces()

    async def asend(self, value: None) -> bytes:
        return await self._pieces.asend(value)

    async def athrow(self, *error: Any) -> bytes:
        return await self._pieces.athrow(*error)

    async def aclose(self) -> None:
        await self._pieces.aclose()
        self._answer.close()


def _upgrade_headers(request: Request) -> Headers:
    upgrade = [("Connection", "Upgrade"), ("Upgrade", request.headers["upgrade"])]
    return [*_host(request), *upgrade, *passed_on(request)]


def _host(request: Request) -> Headers:
    """Backends see the host that the client asked, as behind upstream's UpgradeAwareHandler."""
    return [("Host", request.headers["host"])] if request.headers.get("host") else []


def passed_on(request: Request) -> Headers:
    """Leaves out the headers by which a backend could act as the client, and adds the client's address to
    those that proxies before have named.
    """
    headers = _without(list(request.headers.items()), _KEPT_BACK | {_PROTOCOLS, _FORWARDED_FOR})
    kept = [(name, value) for name, value in headers if not name.lower().startswith(_KEPT_BACK_PREFIXES)]
    addresses = [request.headers.get(_FORWARDED_FOR, ""), request.client_address]
    if any(addresses):
        kept.append(("X-Forwarded-For", ", ".join(filter(None, addresses))))
    protocols = [
        protocol for protocol in offered_protocols(request) if not protocol.startswith(BEARER_PROTOCOL)
    ]
    return [*kept, ("Sec-WebSocket-Protocol", ", ".join(protocols))] if protocols else kept


def _without(headers: Headers, names: frozenset[str]) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in names]

"""Answers over a WebSocket what is otherwise a stream of bytes: watches and logs.

Messages go to the client alone; what it sends is ignored, until it closes. The handshake is that of
golang.org/x/net/websocket, whose refusals have no body but its own words.

Source: k8s.io/apiserver/pkg/endpoints/handlers/watch.go (HandleWS), responsewriters/writers.go
(StreamObject), k8s.io/streaming/pkg/httpstream/wsstream (conn.go, stream.go) and x/net/websocket (server.go,
hybi.go), 1.36.
"""

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress

from kubeskew.apimachinery.streaming import until_one_ends
from kubeskew.apimachinery.streaming.websocket import Message, Opcode, WebSocket, accept_key
from kubeskew.apiserver.authentication.authenticator import BEARER_PROTOCOL
from kubeskew.apiserver.http.request import Headers, Request, Response, Tunnel, Upgrade
from kubeskew.apiserver.nodes.proxy import is_websocket, offered_protocols
from kubeskew.apiserver.structuralschema.formats import is_request_uri

_VERSION = "13"
_BINARY, _BASE64 = "binary.k8s.io", "base64.binary.k8s.io"
_READ = 2048  # bytes of a stream in one message

Chunks = AsyncGenerator[bytes, None]


def watch_response(request: Request, response: Response) -> Response:
    """A client that wants a WebSocket gets a message for each line of the watch.

    The client has to name its origin, and may offer one protocol, which is then taken.
    """
    body = response.body
    if not is_websocket(request) or not isinstance(body, AsyncGenerator):
        return response
    offered = _offered(request)
    refusal = _handshake_error(request)
    if refusal is None and not is_request_uri(request.headers.get("origin", "")):
        refusal = _refused(403)
    if refusal is None and len(offered) > 1:
        refusal = _refused(400)
    return refusal or _accepted(request, offered[0] if offered else None, lambda: _lines(body))


def log_response(request: Request, response: Response) -> Response:
    """A client that wants a WebSocket gets an empty message, then pieces of the log as they come.

    One that offers no protocol gets bytes, and an empty name of a protocol.
    """
    body = response.body
    if not is_websocket(request) or response.status == 204 or not isinstance(body, bytes | AsyncGenerator):
        return response
    chosen = next((name for name in _offered(request) or [""] if name in {"", _BINARY, _BASE64}), None)
    refusal = _handshake_error(request)
    if refusal is None and chosen is None:
        refusal = _refused(403)
    return refusal or _accepted(request, chosen, lambda: _pieces(body, as_text=chosen == _BASE64))


def _offered(request: Request) -> list[str]:
    """The protocol that carries a token is left out."""
    return [name for name in offered_protocols(request) if name and not name.startswith(BEARER_PROTOCOL)]


def _handshake_error(request: Request) -> Response | None:
    if not request.headers.get("sec-websocket-key"):
        return _refused(400, "mismatch challenge/response")
    if request.headers.get("sec-websocket-version") != _VERSION:
        return _refused(400, "missing or bad WebSocket Version", [("Sec-WebSocket-Version", _VERSION)])
    return None


def _refused(status: int, text: str = "", headers: Headers | None = None) -> Response:
    return Response(status, text.encode(), "", headers or [])


def _accepted(
    request: Request, protocol: str | None, messages: Callable[[], AsyncIterator[Message]]
) -> Response:
    headers = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", accept_key(request.headers["sec-websocket-key"])),
    ]
    if protocol is not None:
        headers.append(("Sec-WebSocket-Protocol", protocol))

    async def talk(tunnel: Tunnel) -> None:
        socket = WebSocket(tunnel)
        await until_one_ends(_send(socket, messages()), _ignore(socket))
        with suppress(ConnectionError):
            await socket.close()

    return Response(101, Upgrade(talk), headers=headers)


async def _send(socket: WebSocket, messages: AsyncIterator[Message]) -> None:
    with suppress(ConnectionError):
        async for message in messages:
            await socket.send(message.data, message.opcode)


async def _ignore(socket: WebSocket) -> None:
    """Waits until the client has closed."""
    with suppress(ConnectionError):
        while await socket.receive() is not None:
            pass


async def _lines(body: Chunks) -> AsyncIterator[Message]:
    async with aclosing(body) as chunks:
        async for chunk in chunks:
            for line in chunk.splitlines(keepends=True):
                yield Message(Opcode.TEXT, line)


async def _pieces(body: bytes | Chunks, *, as_text: bool) -> AsyncIterator[Message]:
    def message(data: bytes) -> Message:
        return Message(Opcode.TEXT, base64.b64encode(data)) if as_text else Message(Opcode.BINARY, data)

    yield message(b"")
    if isinstance(body, bytes):
        body = _only(body)
    async with aclosing(body) as chunks:
        async for chunk in chunks:
            for start in range(0, len(chunk), _READ):
                yield message(chunk[start : start + _READ])


async def _only(data: bytes) -> Chunks:
    yield data

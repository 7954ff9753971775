"""Hands a request on to a backend, and its answer back: upgrades become pipes, others are streamed.

Source: k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go and k8s.io/apiserver/pkg/util/proxy
(streamtranslator.go, translatinghandler.go), 1.36.
"""

from collections.abc import Awaitable, Callable

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.streaming.websocket import WebSocket, accept_key
from kubeskew.apiserver.authentication.tokens import WEBSOCKET_TOKEN
from kubeskew.apiserver.http.request import Request, Response, Tunnel, Upgrade, no_pieces
from kubeskew.apiserver.nodes.answers import BackendResponse, Headers
from kubeskew.apiserver.nodes.exchange import Address, DialError, join_pipes, send
from kubeskew.apiserver.storage.encoding import dumps

_WITH_BODY = ("POST", "PUT", "PATCH")
_PROTOCOLS = "sec-websocket-protocol"
_V5 = "v5.channel.k8s.io"
_ERROR_CHANNEL = b"\x03"
_TEXT_LIMIT = 2_000
# Of this hop alone, or about who asks: not for the backend.
_KEPT_BACK = frozenset(
    {
        "host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
        "transfer-encoding", "upgrade", "authorization", "content-length", "expect",
    }
)  # fmt: skip
_KEPT_BACK_PREFIXES = ("impersonate-", "x-remote-")
_KEPT_BACK_ANSWERS = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length"})


def is_upgrade(request: Request) -> bool:
    """Decides whether the client wants another protocol."""
    return "upgrade" in request.headers.get("connection", "").lower() and "upgrade" in request.headers


def is_websocket(request: Request) -> bool:
    return is_upgrade(request) and "websocket" in request.headers["upgrade"].lower()


def offered_protocols(request: Request) -> list[str]:
    """Returns the subprotocols of a WebSocket that the client offers."""
    values = [value for name, value in request.headers.items() if name.lower() == _PROTOCOLS]
    return [name.strip() for value in values for name in value.split(",")]


async def pass_upgrade(request: Request, address: Address, target: str) -> Response:
    """Connect the client with the backend; what refuses the upgrade is answered as it is."""
    wants_v5 = is_websocket(request) and _V5 in offered_protocols(request)
    try:
        answer = await send(address, request.method, target, [*_upgrade_headers(request)])
    except DialError as error:
        if wants_v5:
            why = f'error sending request: Post "{address.scheme}://{address}{target}": {error}'
            return _told_inside(request, why)
        raise StatusError(500, "", f"error dialing backend: {error}") from None
    if wants_v5 and answer.status != 101:
        text = await answer.text(_TEXT_LIMIT)
        return _told_inside(request, f"unable to upgrade connection: {text}")
    return await switched(answer)


async def switched(answer: BackendResponse) -> Response:
    """Returns a backend's answer to who wants to upgrade: a pipe, or its refusal."""
    if answer.status == 101:
        kept = _without(answer.headers, frozenset({"connection"}))
        return Response(101, Upgrade(_joined(answer)), headers=kept)
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


def _told_inside(request: Request, why: str) -> Response:
    """Returns errors inside the upgraded connection: the server upgrades before it knows whether the backend
    does."""
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


async def pass_on(request: Request, address: Address, target: str) -> BackendResponse:
    """Returns the backend's answer to the request as it is. Raises 503 if there is no backend."""
    headers = [("Connection", "close"), *passed_on(request), *framing(request)]
    request.ends_with_client = True
    try:
        return await send(address, request.method, target, headers, request.pieces(), head_seconds=None)
    except DialError as error:
        raise StatusError(503, "ServiceUnavailable", f"error trying to reach service: {error}") from None


def framing(request: Request) -> Headers:
    """Returns the header that says how the request's body is framed: to its backend as to us."""
    length = request.headers.get("content-length", "")
    if length:
        return [("Content-Length", length)]
    if "transfer-encoding" in request.headers:
        return [("Transfer-Encoding", "chunked")]
    return [("Content-Length", "0")] if request.method in _WITH_BODY else []


def streamed(answer: BackendResponse, **changed: str) -> Response:
    """Returns a backend's answer as ours; its body comes as it comes."""
    kept = _without(answer.headers, _KEPT_BACK_ANSWERS | {"content-type", "date"})
    content_type = changed.get("content_type") or answer.header("content-type") or "text/plain"
    if answer.status in {204, 304}:
        answer.close()
        return Response(answer.status, b"", content_type, kept)
    if answer.bodiless:  # of a HEAD, which tells how long its body would be
        answer.close()
        return Response(answer.status, no_pieces(), content_type, kept, answer.length)
    return Response(answer.status, answer.pieces(), content_type, kept, answer.length)


def _upgrade_headers(request: Request) -> Headers:
    return [("Connection", "Upgrade"), ("Upgrade", request.headers["upgrade"]), *passed_on(request)]


def passed_on(request: Request) -> Headers:
    """Returns the request headers that a backend gets: none by which it could act as the client."""
    headers = _without(list(request.headers.items()), _KEPT_BACK | {_PROTOCOLS})
    kept = [(name, value) for name, value in headers if not name.lower().startswith(_KEPT_BACK_PREFIXES)]
    protocols = [
        protocol for protocol in offered_protocols(request) if not protocol.startswith(WEBSOCKET_TOKEN)
    ]
    return [*kept, ("Sec-WebSocket-Protocol", ", ".join(protocols))] if protocols else kept


def _without(headers: Headers, names: frozenset[str]) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in names]

"""The proxy before a real API server, in which faults happen to its clients' requests.

To clients it is the API server: it has its certificate, and speaks HTTP as an emulated server does, with the
same injector of faults. A client that has shown a certificate is named to the program by the headers of a
front proxy, which the program trusts by the proxy's own certificate; tokens go on as they came. Headers of a
front proxy that a client sends are dropped, unless it is one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import aiohttp

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.client.transport import HTTPResponse, HTTPTransport
from kubeskew.apimachinery.client.transport import Request as SentRequest
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.faults.streams import StreamForm
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.apiserver.authentication.authenticator import (
    ANONYMOUS_USER,
    Authorities,
    CertificateAuthenticator,
    RequestHeaderAuthenticator,
    RequestHeaders,
    TokenFile,
    bearer_token,
)
from kubeskew.apiserver.faults import ServerFaults
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.listener import HTTPServer
from kubeskew.apiserver.http.request import (
    MAX_SECONDS,
    BodyBrokenError,
    ConnectionDroppedError,
    Request,
    RequestInfo,
    Response,
    no_pieces,
    parse_info,
)
from kubeskew.apiserver.nodes.identity import UnnamedError, identity
from kubeskew.apiserver.nodes.proxy import (
    Address,
    BackendResponse,
    DialError,
    framing,
    is_upgrade,
    send,
    streamed,
    switched,
    target_of,
)
from kubeskew.apiserver.user import User
from kubeskew.shim.identity import user_of
from kubeskew.shim.proxy import HOP_BY_HOP, passing
from kubeskew.shim.watch_events import WatchStream, events, stream_of

_HOST = "127.0.0.1"
# Bytes of a body that is read before it is sent, as much as the program takes of an object, and of all such
# bodies at a time. What is more is passed on as it comes.
_READ_MAX, _HELD_MAX = 3 << 20, 64 << 20
_SWITCHING = 101
_BODILESS = frozenset({204, 304})
_ANSWERS_OWN = frozenset({b"content-type", b"date"})  # which the HTTP server writes
_AUDIENCE = "api"  # of tokens in the file, which have none
# The headers of kubeadm's flags, which all servers of a cluster have.
_HEADERS = RequestHeaders(
    ("X-Remote-User",), ("X-Remote-Uid",), ("X-Remote-Group",), ("X-Remote-Extra-",), ("front-proxy-client",)
)

log = logging.getLogger(__name__)
RawHeaders = list[tuple[bytes, bytes]]
Named = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Files:
    """The files of an API server that its proxy needs, too: its own certificate, the authorities of clients
    and of front proxies, a front proxy's certificate, and the tokens of users.
    """

    certificate: Path
    key: Path
    clients: Path
    front_proxies: Path
    proxy_certificate: Path
    proxy_key: Path
    tokens: Path


class FrontProxy:
    """Listens on a free port from `start` to `close`."""

    def __init__(
        self,
        files: Files,
        url: str,
        program: tuple[str, int],
        faults: ServerFaults,
        environment: Environment,
    ) -> None:
        """`url` is the server's as clients know it, `program` the address of the program. Raises OSError."""
        self.faults = faults
        self.port = 0
        self._context = serving_context(
            *(str(file) for file in (files.certificate, files.key, files.clients, files.front_proxies))
        )
        clients = files.clients.read_bytes()
        vouching = Kubeconfig(
            url,
            ca=clients,
            certificate=files.proxy_certificate.read_bytes(),
            key=files.proxy_key.read_bytes(),
        )
        self._vouched = _Backend(vouching, program)
        self._plain = _Backend(Kubeconfig(url, ca=clients), program)
        authorities = Authorities(clients, files.front_proxies.read_bytes())
        clock = environment.clock
        self._front_proxies = RequestHeaderAuthenticator(_HEADERS, authorities, clock)
        ids = Features.of(environment.gates).accounts.certificate_ids
        self._certificates = CertificateAuthenticator(clock, authorities, adds_credential_id=ids)
        self._tokens = TokenFile(files.tokens.read_text().splitlines(), (_AUDIENCE,))
        self._http = HTTPServer(self._answer, clock)

    async def start(self) -> None:
        """Raises OSError."""
        self.port = await self._http.accept(_HOST, 0, self._context)

    def finish_connections(self) -> None:
        """Connections end with the answer that is under way."""
        self._http.finish_connections()

    async def close(self) -> None:
        await self._http.close(0)
        await self._vouched.transport.close()
        await self._plain.transport.close()

    async def _answer(self, request: Request) -> Response:
        try:
            request.info = parse_info(request.method, request.path, request.query)
        except ValueError:
            request.info = RequestInfo(False, request.path, request.method.lower())
        user = self._front_proxies.authenticate(request) or self._certificates.authenticate(request)
        if (
            user is None
            and request.peer is not None
            and request.peer.common_name
            and not bearer_token(request)
        ):
            return statuses.response(request, errors.unauthorized())
        try:
            backend, named = (self._plain, []) if user is None else (self._vouched, identity(user))
        except UnnamedError as error:
            log.warning("a client's certificate: %s", error)
            return statuses.response(request, errors.unauthorized())
        request.user = user or self._holder(request)
        return await self.faults.filter(partial(_forward, backend, named), _take_apart)(request)

    def _holder(self, request: Request) -> User:
        """The user whom a token names, for faults that select users; it is the program that checks it."""
        found = self._tokens.identify(bearer_token(request), (_AUDIENCE,))
        if found is not None:
            return found.user
        name = user_of(request.headers.get("authorization", ""))
        return User(name) if name else ANONYMOUS_USER


async def _forward(backend: "_Backend", named: Named, request: Request) -> Response:
    """Raises ConnectionDroppedError where the program gives no answer."""
    request.ends_with_client = True
    try:
        if is_upgrade(request):
            return await backend.upgrade(request, named)
        if "proxy" in (request.info.subresource, request.info.verb) or not backend.has_room(request):
            return await backend.stream(request, named)
        return await backend.exchange(request, named)
    except (*CONNECTION_ERRORS, DialError, BodyBrokenError) as error:
        log.debug("%s %s: %s", request.method, request.path, error)
        raise ConnectionDroppedError(str(error)) from error


class _Backend:
    """The program, asked with one certificate, or without one.

    The client's headers are passed on without those that its `Connection` names; the headers that name the
    user come after them, and nothing of the client's can take them away.
    """

    def __init__(self, config: Kubeconfig, program: tuple[str, int]) -> None:
        context = config.ssl_context()
        self.transport = HTTPTransport(config.server, context, address=program)
        self._address = Address(*program, context, _HOST)
        self._held = 0  # bytes of bodies that are being read, or sent

    def has_room(self, request: Request) -> bool:
        """False for a body that is to be passed on as it comes."""
        length = _length(request)
        return length is not None and length <= min(_READ_MAX, _HELD_MAX - self._held)

    async def exchange(self, request: Request, named: Named) -> Response:
        """Asks on a connection that may be kept. Raises CONNECTION_ERRORS, BodyBrokenError."""
        held = _length(request) or 0
        self._held += held
        try:
            try:
                async with asyncio.timeout(MAX_SECONDS):
                    body = await request.read_body(_READ_MAX)
            except TimeoutError:
                why = "request did not complete within the allotted timeout"
                return statuses.response(request, errors.timeout(why))
            headers = _passed(request, named)
            sent = SentRequest(request.method, target_of(request), body=body or None, lines=headers)
            answer = await self.transport(sent)
        finally:
            self._held -= held
        return await _response(request, cast("HTTPResponse", answer))

    async def upgrade(self, request: Request, named: Named) -> Response:
        """Joins the client with the program, or passes on its refusal. Raises DialError."""
        wanted = [("Connection", "Upgrade"), ("Upgrade", request.headers["upgrade"])]
        answer = await self._send(request, wanted, named)
        return await switched(answer) if answer.status == _SWITCHING else streamed(answer)

    async def stream(self, request: Request, named: Named) -> Response:
        """Passes on bodies of any size as they come. Raises DialError."""
        return streamed(await self._send(request, [("Connection", "close")], named))

    async def _send(self, request: Request, headers: Named, named: Named) -> BackendResponse:
        kept = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in _passed(request, named)]
        return await send(
            self._address,
            request.method,
            target_of(request),
            [*headers, *kept, *framing(request)],
            request.pieces(),
            head_seconds=None,
        )


def _length(request: Request) -> int | None:
    """The body's, in bytes; None if only its end tells."""
    if "transfer-encoding" in request.headers:
        return None
    return int(request.headers.get("content-length", "") or 0)


def _raw(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    return [(name.encode("latin-1"), value.encode()) for name, value in headers]


def _passed(request: Request, named: Named) -> RawHeaders:
    return [*passing(_raw(request.headers.items()), HOP_BY_HOP), *_raw(named)]


async def _response(request: Request, answer: HTTPResponse) -> Response:
    lines = passing(answer.headers.lines, HOP_BY_HOP | _ANSWERS_OWN)
    headers = [(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in lines]
    content_type = answer.headers.get("content-type", "")
    announced = answer.headers.get("content-length", "")
    length = int(announced) if announced.isdecimal() else None
    if request.method == "HEAD":
        await answer.close()
        return Response(answer.status, no_pieces(), content_type, headers, length)
    if answer.status in _BODILESS or (answer.finished and request.info.verb != "watch"):
        body = answer.arrived()
        await answer.close()
        return Response(answer.status, body, content_type, headers)
    return Response(answer.status, _Pieces(answer), content_type, headers, length)


class _Pieces:
    """The body as it comes. An answer that nobody has begun to read is closed, too."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def __aiter__(self) -> "_Pieces":
        return self

    async def __anext__(self) -> bytes:
        """Raises ConnectionResetError where the answer breaks off."""
        try:
            piece = await self._answer.chunk()
        except aiohttp.ClientError as error:
            raise ConnectionResetError(str(error)) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        await self._answer.close()


def _take_apart(
    body: AsyncIterator[bytes], content_type: str, wanted: Callable[[], bool]
) -> tuple[AsyncIterator[bytes], StreamForm]:
    stream = stream_of(content_type)
    return _Events(body, stream, wanted), stream


class _Events:
    """The events of a watch; closing it closes the answer."""

    def __init__(self, body: AsyncIterator[bytes], stream: WatchStream, wanted: Callable[[], bool]) -> None:
        self._body: Any = body
        self._events = events(body, stream, wanted)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def aclose(self) -> None:
        await self._body.aclose()

"""The network of a simulation: it carries requests between processes as values, not as bytes.

Components serve their health in it, and a cluster's supervisor reads it.
"""

import asyncio
import contextlib
import contextvars
import errno
import hashlib
import json
import re
import warnings
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from multidict import CIMultiDict

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.rest import Dial
from kubeskew.apimachinery.client.transport import Request, Transport, failing_over, split_lines
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.process.health_checks import WAIT, Health
from kubeskew.apimachinery.process.listeners import answer, until_ready
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.listener import HTTPServer
from kubeskew.apiserver.http.request import Handler, Peer, Response, Upgrade
from kubeskew.apiserver.http.request import Request as ServerRequest
from kubeskew.cluster.state import StateDir
from kubeskew.simulation.processes import CURRENT, Process

if TYPE_CHECKING:
    from kubeskew.apiserver.options import ServerOptions

_PORT = re.compile(r":(\d+)$")
_PROBE_SECONDS = 5.0


class HealthListener:
    """A context that serves the health of a component on a port, and gives the port."""

    def __init__(self, listeners: "dict[int, HealthListener]", health: Health, port: int) -> None:
        self._listeners = listeners
        self._port = port
        self.health = health
        self.process = CURRENT.get()

    async def __aenter__(self) -> int:
        self._listeners[self._port] = self
        if self.process is not None:
            self.process.ended[self._end] = None
        return self._port

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._listeners.get(self._port) is self:
            del self._listeners[self._port]

    async def get(self, target: str) -> tuple[int, str]:
        url = urlsplit(target)
        query = parse_qs(url.query)
        if url.path == "/readyz" and WAIT in query:
            await until_ready(self.health, query[WAIT][0])
        found = answer(self.health, url.path, query.get("name[]", ()))
        body = found.body
        return found.status, body.decode() if isinstance(body, bytes) else found.text or ""


class Network:
    """Listeners of each port."""

    def __init__(self) -> None:
        self.servers: dict[int, APIListener] = {}
        self.sharing: defaultdict[int, deque[APIListener]] = defaultdict(deque)  # by the port they share
        self.healths: dict[int, HealthListener] = {}
        self.requests = 0
        # The seconds that a message takes, by the process of the client and method and path of the request,
        # each of which has latencies of its own; None: no time.
        self.latency: Callable[[str, str], float] | None = None

    def listener(self, port: int) -> "APIListener | None":
        """Listeners that share a port take turns; None if the port is closed."""
        if port in self.servers:
            return self.servers[port]
        sharing = self.sharing[port]
        for _ in range(len(sharing)):
            sharing.rotate(-1)
            if not sharing[-1].away:
                return sharing[-1]
        return None

    def listens(self, listener: "APIListener | None", port: int) -> bool:
        if listener is None or listener.away:
            return False
        return self.servers.get(port) is listener or listener in self.sharing[port]

    def seconds(self, client: Process | None, what: str) -> float:
        """Messages of the scenario take no time."""
        return 0.0 if self.latency is None or client is None else self.latency(client.name, what)

    def peer_of(self, certificate: bytes) -> Peer | None:
        """The certificate is PEM."""
        return _peer(certificate) if certificate else None


def _peer(certificate: bytes) -> Peer:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    found = x509.load_pem_x509_certificate(certificate)
    der = found.public_bytes(Encoding.DER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of accounts are longer than X.509 has them
        names = [str(name.value) for name in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = found.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return Peer(
        names[0] if names else "",
        tuple(str(group.value) for group in groups),
        hashlib.sha256(der).hexdigest(),
        found.not_valid_after_utc.timestamp(),
        der,
    )


class Exchange:
    """One request and its answer, which may be a stream. `part` breaks it off for both sides."""

    def __init__(self, listener: "APIListener") -> None:
        self._listener = listener
        self.client = CURRENT.get()
        self.context = contextvars.copy_context()  # the client's, in which what was sent to it arrives
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.pieces: asyncio.Queue[bytes | BaseException | None] | None = None  # of a stream
        self._task: asyncio.Task[None] | None = None
        listener.exchanges[self] = None
        if self.client is not None:
            self.client.ended[self.leave] = None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._listener.spawn(work)

    def leave(self) -> None:
        """The client is gone: a stream ends for both sides, but a request goes on."""
        if self.pieces is not None and self._task is not None:
            self._task.cancel()
            self.pieces.put_nowait(None)
        self.end()

    def part(self) -> None:
        """The server is gone."""
        if not self.answer.done():
            self.answer.set_exception(aiohttp.ServerDisconnectedError())
        elif self.pieces is not None:
            self.pieces.put_nowait(aiohttp.ClientPayloadError("the answer broke off"))
        if self._task is not None:
            self._task.cancel()
        self.end()

    def end(self) -> None:
        if self.client is not None:
            self.client.ended.pop(self.leave, None)
        self._listener.forget(self)


class Answer:
    """`transport.Response` of an exchange; a whole answer does without one."""

    def __init__(
        self, exchange: Exchange | None, status: int, headers: Mapping[str, str], content: bytes = b""
    ) -> None:
        self._exchange = exchange
        self.status = status
        self.headers = headers
        self._content = content

    async def body(self) -> bytes:
        if self._exchange is None:
            return self._content
        return b"".join([piece async for piece in self._pieces()])

    def lines(self) -> AsyncIterator[bytes]:
        return split_lines(self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        queue = self._exchange.pieces if self._exchange is not None else None
        if queue is None:
            yield self._content
            return
        while (piece := await queue.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    async def close(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.leave()


class NetworkTransport:
    """Sends a client's requests to the listener of a port, as `peer`."""

    def __init__(self, network: Network, port: int, peer: Peer | None, max_requests: int) -> None:
        self._network = network
        self._port = port
        self._listener: APIListener | None = None  # at the other end of the connection
        self._peer = peer
        self._slots = asyncio.Semaphore(max_requests)

    async def __call__(self, request: Request) -> Answer:
        if request.timeout is None:
            return await self._send(request)
        async with self._slots, asyncio.timeout(request.timeout):
            return await self._send(request)

    async def _send(self, request: Request) -> Answer:
        if self._network.latency is not None:
            await self._carry(request)
        if not self._network.listens(self._listener, self._port):
            self._listener = self._network.listener(self._port)
        listener = self._listener
        if listener is None or listener.away:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, f"Connect call failed ('127.0.0.1', {self._port})"
            )
        self._network.requests += 1
        asked = ServerRequest.of(
            request.method, request.target, request.headers, request.body or b"", self._peer
        )
        exchange = Exchange(listener)
        exchange.begin(listener.answer(exchange, asked, streams=request.timeout is None))
        try:
            answer = await exchange.answer
            if self._network.latency is not None:
                await self._carry(request)
        except asyncio.CancelledError:
            exchange.leave()
            raise
        return answer

    async def _carry(self, request: Request) -> None:
        """Returns when a message has arrived, a request or its answer."""
        subject = f"{request.method} {request.target.partition('?')[0]}"
        await asyncio.sleep(self._network.seconds(CURRENT.get(), subject))

    async def close(self) -> None:
        """Does nothing: each exchange ends by itself."""


class APIListener:
    """`apiserver.machine.Listener` on a port of the network.

    Components' requests are calls. Clients that connect to the port speak HTTP, over TLS, as with a process:
    these are clients that are not kubeskew's, and connections that are upgraded.
    """

    def __init__(self, network: Network, handler: Handler, clock: Clock) -> None:
        self._network = network
        self._handler = handler
        self._connections = HTTPServer(handler, clock)
        self.process = CURRENT.get()
        self._port = 0
        self._shared_port = 0
        self._closing = False
        self._empty = asyncio.Event()
        self.away = False
        self.exchanges: dict[Exchange, None] = {}

    async def listen(self, options: "ServerOptions") -> int:
        if options.secure_port in self._network.servers:
            raise OSError(errno.EADDRINUSE, f"address already in use: {options.secure_port}")
        self._port = options.secure_port
        self._network.servers[self._port] = self
        await self._connections.listen(options)
        if self.process is not None:
            self.process.ended[self._end] = None
        return self._port

    async def share(self, options: "ServerOptions") -> None:
        self._shared_port = options.shared_port
        self._network.sharing[self._shared_port].append(self)
        await self._connections.share(options)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        if self.process is not None:
            return self.process.spawn(work)
        return asyncio.get_running_loop().create_task(work)

    async def answer(self, exchange: Exchange, request: ServerRequest, *, streams: bool) -> None:
        response = await self._respond(exchange, request)
        if response is None:
            return
        if isinstance(response.body, Upgrade):
            response = await _refused(request, response.body)
        headers = CIMultiDict(response.headers)
        if warnings := headers.getall("Warning", []):
            headers["Warning"] = ", ".join(warnings)  # one header, as clients over HTTPS read them
        headers.setdefault("Content-Type", response.content_type)
        body: Any = response.body  # bytes or an asynchronous generator
        if isinstance(body, bytes):
            _settle(exchange, Answer(None, response.status, headers, body))
            exchange.end()
            return
        async with contextlib.aclosing(body):
            answered = Answer(exchange, response.status, headers)
            if streams:
                await self._stream(exchange, answered, body, f"WATCH {request.path}")
            else:
                content = b"".join([bytes(piece) async for piece in body])
                _settle(exchange, Answer(None, response.status, headers, content))
        exchange.end()

    async def _stream(
        self, exchange: Exchange, answer: Answer, body: AsyncIterator[bytes], what: str
    ) -> None:
        """Sends pieces as they come; none arrives before the one in front of it.

        Pieces that are under way arrive though the server has ended.
        """
        loop, due = asyncio.get_running_loop(), 0.0
        pieces = exchange.pieces = asyncio.Queue()
        _settle(exchange, answer)

        def send(piece: bytes | BaseException | None) -> None:
            nonlocal due
            due = max(due, loop.time() + self._network.seconds(exchange.client, what))
            if due > loop.time():
                loop.call_at(due, pieces.put_nowait, piece, context=exchange.context)
            else:
                pieces.put_nowait(piece)

        try:
            async for piece in body:
                send(bytes(piece))
            send(None)
        except ConnectionError as error:
            send(aiohttp.ClientPayloadError(str(error)))

    async def _respond(self, exchange: Exchange, request: ServerRequest) -> Response | None:
        """None if the connection ends without a response."""
        try:
            return await self._handler(request)
        except ConnectionError:
            exchange.part()
            return None

    def forget(self, exchange: Exchange) -> None:
        self.exchanges.pop(exchange, None)
        if self._closing and not self.exchanges:
            self._empty.set()

    async def refuse_during(self, outage: Awaitable[None]) -> None:
        self.away = True
        self._part_all()
        await self._connections.refuse_during(outage)
        self.away = False

    def finish(self) -> None:
        self._closing = True
        if self._network.servers.get(self._port) is self:
            del self._network.servers[self._port]
        if self in self._network.sharing[self._shared_port]:
            self._network.sharing[self._shared_port].remove(self)
        self._connections.finish()

    async def close(self, grace_seconds: float) -> None:
        self.finish()
        if self.exchanges:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self._empty.wait()
        self._part_all()
        await self._connections.close(grace_seconds)

    def _end(self) -> None:
        self.finish()
        self._part_all()

    def _part_all(self) -> None:
        for exchange in [*self.exchanges]:
            exchange.part()


class _NoClient:
    """A `Tunnel` whose client has left."""

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


async def _refused(request: ServerRequest, upgrade: Upgrade) -> Response:
    """An upgrade is refused, and its backend is closed."""
    with contextlib.suppress(ConnectionError):
        await upgrade.talk(_NoClient())
    message = "a call carries no upgrade: connect to the server's port"
    return statuses.response(request, StatusError(501, "NotImplemented", message))


def _settle(exchange: Exchange, answer: Answer) -> None:
    if not exchange.answer.done():
        exchange.answer.set_result(answer)


def dial_in(network: Network) -> Dial:
    peers: dict[bytes, Peer | None] = {}

    def dial(config: Kubeconfig, max_requests: int) -> Transport:
        if config.certificate not in peers:
            peers[config.certificate] = network.peer_of(config.certificate)
        peer, found = peers[config.certificate], [_PORT.search(each.server) for each in config.each()]
        ports = [int(port[1]) if port else 443 for port in found]
        return failing_over([NetworkTransport(network, port, peer, max_requests) for port in ports])

    return dial


class ProbeTransport:
    """`cluster.probes.Transport` over the network, with the credentials in a state directory."""

    def __init__(self, network: Network, directory: StateDir) -> None:
        self._network = network
        token = directory.token.read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "kubeskew/0.1"}

    async def request(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                if parts.scheme == "http":
                    return await self._health(parts.port or 0, target)
                return await self._ask(parts.port or 0, Request(method, target, *self._message(body)))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return 0, str(error)

    def _message(self, body: Any) -> tuple[Mapping[str, str], bytes | None, float]:
        if body is None:
            return self._headers, None, _PROBE_SECONDS
        headers = {**self._headers, "Content-Type": "application/json"}
        return headers, json.dumps(body).encode(), _PROBE_SECONDS

    async def _ask(self, port: int, request: Request) -> tuple[int, str]:
        answer = await NetworkTransport(self._network, port, None, 1)(request)
        return answer.status, (await answer.body()).decode()

    async def _health(self, port: int, target: str) -> tuple[int, str]:
        listener = self._network.healths.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('127.0.0.1', {port})")
        if listener.process is None:
            return await listener.get(target)
        return await _until_gone(listener.process, listener.get(target))

    async def close(self) -> None:
        """Does nothing: there are no connections."""


async def _until_gone(process: Process, work: Coroutine[Any, Any, tuple[int, str]]) -> tuple[int, str]:
    """Raises ConnectionResetError if the process ends before `work`."""
    found: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    def gone() -> None:
        if not found.done():
            found.set_exception(ConnectionResetError("Connection reset by peer"))

    async def settle() -> None:
        result = await work
        if not found.done():
            found.set_result(result)

    process.ended[gone] = None
    process.spawn(settle())
    try:
        return await found
    finally:
        process.ended.pop(gone, None)

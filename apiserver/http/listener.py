"""The HTTP server: a listener, and its connections, each of which answers its requests in order.

Each connection has a task. Clients cannot hold up the server for long: heads are bounded by size and time,
bodies by `Body`, streams by the time in which a client takes nothing.
"""

import asyncio
import hashlib
import logging
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from email.utils import format_datetime
from functools import partial
from typing import cast

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.apiserver.http.request import Handler, Peer, Upgrade
from kubeskew.apiserver.http.wire import (
    ConnectionTransport,
    ConnectionTunnel,
    Incoming,
    IncomingRequest,
    Limits,
    Outgoing,
    Refusal,
)
from kubeskew.apiserver.options import ServerOptions

_WAITING_MAX = 8  # requests that a client sends ahead

_log = logging.getLogger(__name__)


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


class HTTPServer:
    """Holds all connections of one server, from `listen` to `close`."""

    def __init__(self, handler: Handler, clock: Clock) -> None:
        self.limits = Limits()
        self.sweep_seconds = 1.0  # how often silent connections are looked for
        self._handler = handler
        self._clock = clock
        self._connections: dict[Connection, None] = {}
        self._listeners: list[asyncio.Server] = []
        self._again: list[Callable[[], Awaitable[asyncio.Server]]] = []  # opens each of them again
        self._tls: ssl.SSLContext | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._closing = False
        self._empty = asyncio.Event()

    async def listen(self, options: ServerOptions) -> int:
        """Accepts connections, over TLS if there is a certificate; port 0 is any. Returns the bound port.
        Raises OSError.
        """
        if options.tls_cert_file:
            self._tls = serving_context(
                options.tls_cert_file,
                options.tls_private_key_file,
                options.client_ca_file,
                options.requestheader_client_ca_file,
            )
        return await self.accept(options.bind_address, options.secure_port, self._tls)

    async def share(self, options: ServerOptions) -> None:
        await self._open(options.bind_address, options.shared_port, self._tls, shared=True)

    async def accept(self, address: str, port: int, context: ssl.SSLContext | None) -> int:
        """Port 0 is any; returns the bound port. Raises OSError."""
        self._date()
        bound = await self._open(address, port, context, shared=False)
        self._sweeper = asyncio.create_task(self._sweep(), name="sweep connections")
        return bound

    async def _open(self, address: str, port: int, context: ssl.SSLContext | None, *, shared: bool) -> int:
        listener = await self._accept(address, port, context, shared=shared)
        bound: int = listener.sockets[0].getsockname()[1]
        self._listeners.append(listener)
        self._again.append(partial(self._accept, address, bound, context, shared=shared))
        return bound

    async def _accept(
        self, address: str, port: int, context: ssl.SSLContext | None, *, shared: bool
    ) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            self._connect, address, port, ssl=context, backlog=1024, reuse_port=shared
        )

    async def refuse_during(self, outage: Awaitable[None]) -> None:
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.abort()
        await outage
        if not self._closing:
            self._listeners = [await again() for again in self._again]

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _connect(self) -> Connection:
        return Connection(self._handler, self.limits, self._connections, self._lost)

    def _lost(self) -> None:
        if self._closing and not self._connections:
            self._empty.set()

    def _date(self) -> None:
        self.limits.date = f"Date: {format_datetime(self._clock.now(), usegmt=True)}\r\n".encode()

    async def _sweep(self) -> None:
        """Closes connections that have been silent, and keeps the date of answers right to the second."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.sweep_seconds)
            self._date()
            now = loop.time()
            for connection in tuple(self._connections):
                if connection.deadline < now:
                    connection.abort()

    def finish(self) -> None:
        """Accepts nothing more; connections end with the answer that is under way."""
        self._closing = True
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.finish()

    async def close(self, grace_seconds: float) -> None:
        self.finish()
        if self._connections:
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._empty.wait()
            except TimeoutError:
                pass
        for connection in tuple(self._connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

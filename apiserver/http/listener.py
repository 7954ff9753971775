"""The HTTP server: a listener, and its connections.

Clients cannot hold up the server for long: heads are bounded by size and time, bodies by `Body`, streams by
the time in which a client takes nothing.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from email.utils import format_datetime
from functools import partial

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.apiserver.http.connection import Connection, Limits
from kubeskew.apiserver.http.request import Handler
from kubeskew.apiserver.options import ServerOptions


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
        self.prepare(options)
        return await self._open(options.bind_address, options.secure_port, self._tls, shared=False)

    def prepare(self, options: ServerOptions) -> None:
        """Gets ready for connections. Raises OSError."""
        if options.tls_cert_file:
            self._tls = serving_context(
                options.tls_cert_file,
                options.tls_private_key_file,
                options.client_ca_file,
                options.requestheader_client_ca_file,
            )
        self._begin()

    def _begin(self) -> None:
        self._date()
        self._sweeper = asyncio.create_task(self._sweep(), name="sweep connections")

    async def share(self, options: ServerOptions) -> None:
        await self._open(options.bind_address, options.shared_port, self._tls, shared=True)

    async def accept(self, address: str, port: int, context: ssl.SSLContext | None) -> int:
        """Port 0 is any; returns the bound port. Raises OSError."""
        self._begin()
        return await self._open(address, port, context, shared=False)

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
        self.finish_connections()

    def finish_connections(self) -> None:
        """Connections end with the answer that is under way; new ones are accepted."""
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

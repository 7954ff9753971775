"""Connections in memory between servers and clients of one event loop, with TLS where either asks for it."""

import asyncio
import contextvars
import errno
import functools
import os
import socket
import ssl
from asyncio import sslproto
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from kubeskew.simulation.processes import CURRENT, Process

Address = tuple[str, int]
Factory = Callable[[], asyncio.BaseProtocol]

_FIRST_PORT = 40_000


@functools.cache
def _quiet_file() -> int:
    return os.eventfd(0)


class ConnectedSocket:
    """The part of a socket that libraries use of a transport."""

    family = socket.AF_INET

    def __init__(self, here: Address, there: Address, is_open: Callable[[], bool]) -> None:
        self._here, self._there = here, there
        self._is_open = is_open

    def fileno(self) -> int:
        """An eventfd that is never readable stands for a silent connection; -1 if it is closed."""
        return _quiet_file() if self._is_open() else -1

    def getsockname(self) -> Address:
        return self._here

    def getpeername(self) -> Address:
        return self._there

    def setsockopt(self, *_: Any) -> None:
        """Does nothing: there is no kernel."""


class MemoryTransport(asyncio.Transport):
    """One end of a connection. Data arrives in the context of the process that has this end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: contextvars.Context, here: Address, there: Address
    ) -> None:
        like_socket = ConnectedSocket(here, there, lambda: not self._closing)
        super().__init__({"sockname": here, "peername": there, "socket": like_socket})
        self._loop = loop
        self._context = context
        self._protocol: Any = None
        self._closing = False
        self._paused = False
        self._waiting: list[bytes | None] = []  # data that came while reading was paused; None is the end
        self.peer: MemoryTransport | None = None

    def call_soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Schedules the call soon, in the context of this end."""
        self._loop.call_soon(call, *arguments, context=self._context)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        found: asyncio.BaseProtocol = self._protocol
        return found

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.call_soon(self.arrive, data)

    def arrive(self, data: bytes | None) -> None:
        """None is the end of the data."""
        if self._closing:
            return
        if self._paused:
            self._waiting.append(data)
        elif data is not None:
            _feed(self._protocol, data)
        elif not self._protocol.eof_received():
            self.close()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing: data is delivered at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        if not self._closing and self.peer is not None:
            self.peer.call_soon(self.peer.arrive, bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and self.peer is not None:
            self.peer.call_soon(self.peer.arrive, None)

    def abort(self) -> None:
        self.close()

    def _force_close(self, _error: BaseException) -> None:
        """asyncio's TLS calls this method of transports by its name."""
        self.close()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.call_soon(self._protocol.connection_lost, None)
        if self.peer is not None:
            self.peer.call_soon(self.peer.close)


def _feed(protocol: Any, data: bytes) -> None:
    """A protocol with a buffer of its own gets the data in pieces."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        protocol.data_received(data)
        return
    rest = memoryview(data)
    while rest:
        buffer = memoryview(protocol.get_buffer(len(rest)))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


class Listening:
    """The part of `asyncio.Server` that components use; it ends with its process."""

    def __init__(
        self, loop: "Connections", factory: Factory, address: Address, tls: Any, shared: bool
    ) -> None:
        self._loop = loop
        self.shared = shared
        self.factory = factory
        self.address = address
        self.tls: ssl.SSLContext | None = tls
        self.process = CURRENT.get()
        self.context = contextvars.copy_context()
        self.sockets = [self]  # asyncio.Server has the port in its sockets
        _end_with(self.process, self.close)

    def getsockname(self) -> Address:
        return self.address

    def close(self) -> None:
        if self.is_serving():
            self._loop.listeners[self.address].remove(self)

    def is_serving(self) -> bool:
        return self in self._loop.listeners[self.address]

    async def wait_closed(self) -> None:
        """Returns at once: there is no socket to wait for."""


class Connections(asyncio.BaseEventLoop):
    """The part of an event loop that listens and connects."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: defaultdict[Address, deque[Listening]] = defaultdict(deque)
        self._ports = iter(range(_FIRST_PORT, 1 << 16))
        self._dialled: dict[int, Address] = {}  # sockets' numbers, and where they are to lead to

    async def create_server(self, *arguments: Any, **options: Any) -> Any:
        """Listens: takes a factory of protocols, host, port, `ssl` and `reuse_port`."""
        factory, host, port = arguments
        address, shared = (host, port or next(self._ports)), bool(options.get("reuse_port"))
        if any(not (shared and other.shared) for other in self.listeners[address]):
            raise OSError(errno.EADDRINUSE, "address already in use")
        server = Listening(self, factory, address, options.get("ssl"), shared)
        self.listeners[address].append(server)
        return server

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Connects: takes a factory of protocols, host and port or `sock`, `ssl` and `server_hostname`."""
        factory, host, port = (*arguments, None, None)[:3]
        if (sock := options.get("sock")) is not None:
            host, port = self._dialled.pop(sock.fileno())
            sock.close()
        return await self._connect(factory, host, port, options.get("ssl"), options.get("server_hostname"))

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Notes where a socket is to lead to: `create_connection` makes the connection in its place."""
        self._servers(*address[:2])
        self._dialled[sock.fileno()] = address[:2]

    def _servers(self, host: str, port: int) -> "deque[Listening]":
        servers = self.listeners[host, port]
        if not servers:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{host}', {port})")
        return servers

    async def _connect(
        self, factory: Factory, host: str, port: int, tls: ssl.SSLContext | None, name: str | None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        servers = self._servers(host, port)
        server = servers[0]
        servers.rotate(-1)  # those that share a port take turns
        here: Address = (host, next(self._ports))
        ours = MemoryTransport(self, contextvars.copy_context(), here, server.address)
        theirs = MemoryTransport(self, server.context.copy(), server.address, here)
        ours.peer, theirs.peer = theirs, ours
        _end_with(CURRENT.get(), theirs.close)
        _end_with(server.process, ours.close)
        accepted = server.context.copy().run(server.factory)
        theirs.call_soon(_accept, self, theirs, accepted, server.tls)
        protocol = factory()
        if tls is None:
            ours.set_protocol(protocol)
            protocol.connection_made(ours)
            return ours, protocol
        waiter: asyncio.Future[None] = self.create_future()
        secured = _secured(self, ours, protocol, tls, waiter, name or host)
        await waiter
        return secured, protocol


def _accept(
    loop: asyncio.AbstractEventLoop, transport: MemoryTransport, protocol: asyncio.BaseProtocol, tls: Any
) -> None:
    if tls is not None:
        _secured(loop, transport, protocol, tls, None, None)
        return
    transport.set_protocol(protocol)
    protocol.connection_made(transport)


def _secured(
    loop: asyncio.AbstractEventLoop,
    transport: MemoryTransport,
    protocol: asyncio.BaseProtocol,
    context: ssl.SSLContext,
    waiter: "asyncio.Future[None] | None",
    name: str | None,
) -> asyncio.BaseTransport:
    """Puts TLS between a transport and its protocol; `name` is the server's, for a client."""
    made: Any = sslproto.SSLProtocol  # typeshed has other parameters
    tls = made(loop, protocol, context, waiter, name is None, name)
    transport.set_protocol(tls)
    tls.connection_made(transport)
    secured: asyncio.BaseTransport = tls._get_app_transport()  # noqa: SLF001 - as asyncio's own loops do
    return secured


def _end_with(process: Process | None, end: Callable[[], None]) -> None:
    if process is not None:
        process.ended[end] = None

"""The ports at which clients find a real API server: its shim listens there in its place.

Without faults what comes in goes on to the program, byte by byte, so that clients have the program's own TLS
and HTTP. While there are faults of requests, connections go to a proxy that they act on
(`kubeskew/shim/front_proxy.py`). At a port that all API servers of a cluster share, the kernel spreads
connections over the processes that listen on it, emulated servers and shims.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from kubeskew.apimachinery.streaming.splicing import End, Incoming
from kubeskew.shim.front_proxy import FrontProxy

HOST = "127.0.0.1"
Address = tuple[str, int]
_BACKLOG = 1024
QUIET_SECONDS = 0.05  # without a byte, after which a connection is taken to have no short request under way
DRAIN_SECONDS = 0.5  # for requests under way
_POLL_SECONDS = 0.01
REOPEN_SECONDS = 1.0  # after which a port that could not be had after an outage is tried again

log = logging.getLogger(__name__)


class Front:
    """Listens from `listen` to `stop_listening`, as often as the program is started.

    `shared_port` is 0 if there is none. Without a `proxy` there are no faults.
    """

    def __init__(self, port: int, shared_port: int, program: Address, proxy: FrontProxy | None) -> None:
        self._ports = [(port, False), *([(shared_port, True)] if shared_port else [])]
        self._program = program
        self._proxy = proxy
        self._direct: dict[End, None] = {}
        self._proxied: dict[End, None] = {}
        self._listeners: list[asyncio.Server] = []
        self._wanted = False
        self._outage = False
        self._proxying = proxy is not None and proxy.faults.active
        self._reloading = asyncio.Lock()

    async def listen(self) -> None:
        """Accepts connections, unless an outage lasts: then once it is over. Raises OSError."""
        self._wanted = True
        if not self._outage:
            await self._open()

    async def _open(self) -> None:
        """Listens at all ports, or at none. Raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            for port, shared in self._ports:
                self._listeners.append(
                    await loop.create_server(
                        lambda: _Connection(self._way), sock=_bound(port, shared=shared), backlog=_BACKLOG
                    )
                )
        except BaseException:
            self._close_listeners()
            raise

    def _way(self) -> tuple[dict[End, None], Address]:
        """To where a connection leads, and among which it counts."""
        if self._proxy is not None and self._proxying:
            return self._proxied, (HOST, self._proxy.port)
        return self._direct, self._program

    def stop_listening(self) -> None:
        """Leaves connections to the program, which ends them with itself."""
        self._wanted = False
        self._close_listeners()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def reload(self) -> None:
        """Puts the plan of faults into effect. No connection goes past the proxy then: those that did are
        closed before, if possible when nothing comes and goes on them.
        """
        proxy = self._proxy
        if proxy is None:
            return
        async with self._reloading:
            if not self._proxying and proxy.faults.are_requests_meant():
                self._proxying = True
                await self._drain()
            proxy.faults.reload()
            if not proxy.faults.active:
                self._proxying = False
                proxy.finish_connections()

    async def _drain(self) -> None:
        """Closes the connections to the program, and gives clients the time to see it."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DRAIN_SECONDS
        quiet: dict[End, tuple[int, float]] = {}  # how often bytes have come, and since when no more
        while self._direct:
            now = loop.time()
            for each in [*self._direct]:
                came = _came(each)
                if each not in quiet or quiet[each][0] != came:
                    quiet[each] = came, now
                if now >= end:
                    each.abort()
                elif now - quiet[each][1] >= QUIET_SECONDS:
                    each.close()
            await asyncio.sleep(_POLL_SECONDS)
        await asyncio.sleep(QUIET_SECONDS)

    async def refuse_during(self, outage: Awaitable[None]) -> None:
        """Refuses connections, and resets those that there are, until `outage` is over."""
        self._outage = True
        self._close_listeners()
        _abort(self._direct)
        _abort(self._proxied)
        try:
            await outage
            await self._reopen()
        finally:
            self._outage = False

    async def _reopen(self) -> None:
        """Tries until all ports can be had, or are not wanted any more."""
        while self._wanted:
            try:
                await self._open()
            except OSError as error:
                log.warning("cannot listen after an outage: %s", error)
                await asyncio.sleep(REOPEN_SECONDS)
            else:
                if not self._wanted:
                    self._close_listeners()
                return

    async def close(self) -> None:
        """Ends all connections."""
        self.stop_listening()
        _abort(self._direct)
        _abort(self._proxied)
        await asyncio.sleep(0)  # for the transports to close


def _came(end: End) -> int:
    """Counts both directions."""
    return end.came + end.other.came if end.other is not None else end.came


def _abort(ends: dict[End, None]) -> None:
    for end in [*ends]:
        end.abort()


def _bound(port: int, *, shared: bool) -> socket.socket:
    """Raises OSError."""
    listening = socket.socket(socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((HOST, port))
    except OSError:
        listening.close()
        raise
    return listening


class _Connection(Incoming):
    """Reads nothing before there is a connection to where it leads.

    That is decided when it is made, some time after its protocol: meanwhile there may be faults.
    """

    def __init__(self, way: Callable[[], tuple[dict[End, None], Address]]) -> None:
        super().__init__({})
        self._way = way

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.ends, target = self._way()
        super().connection_made(transport)
        self.begin(self._dial(target))

    async def _dial(self, target: Address) -> None:
        try:
            await self.join(*target)
        except OSError:
            self.close()

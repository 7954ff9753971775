"""Serves one connection: reads requests one after the other, and writes their answers.

A task per connection answers in order. What a client may hold up is bounded: its head by size and time, its
body by `Body`, a stream by how long nothing of it is taken.
"""

import asyncio
import hashlib
import logging
import math
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast

from kubeskew.apiserver.http.incoming import Incoming, IncomingRequest, Refusal
from kubeskew.apiserver.http.outgoing import Outgoing
from kubeskew.apiserver.http.request import Handler, Peer, Upgrade
from kubeskew.apiserver.http.transport import ConnectionTransport, Limits
from kubeskew.apiserver.http.tunnel import ConnectionTunnel

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
        """Returns the time of the loop at which the connection counts as dead."""
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
        """Makes a tunnel of the connection: nothing after a request to upgrade is HTTP, granted or not."""
        transport = self._transport
        self._tunnel = ConnectionTunnel(transport.raw, transport.hold, transport.release, transport.drain)
        if rest:
            self._tunnel.feed(rest)

    # --- ends ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Lets the answer under way be the last, then closes."""
        self._transport.finishing = True
        if self._answered is None and not self._asked:
            self._transport.raw.close()

    def abort(self) -> None:
        """Closes at once."""
        self._transport.raw.abort()

    # --- answering -----------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Answers requests in order until the connection ends; none behind an answer that says so."""
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
    """Returns the verified client certificate's subject, if the connection has one."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    subject = [pair for names in certificate["subject"] for pair in names]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    groups = tuple(value for kind, value in subject if kind == "organizationName")
    whole = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    until = float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    return Peer(name, groups, hashlib.sha256(whole).hexdigest(), until, whole)

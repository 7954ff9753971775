"""Ports of services that lead on: connections are joined, datagrams go by flows."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, cast

from kubeskew.apimachinery.streaming.splicing import End, Incoming, Splices

_FLOW_SECONDS = 120.0  # nf_conntrack_udp_timeout_stream
_EARLY_MAX = 64  # datagrams of a flow that is being made
_FLOWS_MAX = 4096
_RESET = struct.pack("ii", 1, 0)  # a connection that is closed is reset

Dial = Callable[[str], Awaitable[socket.socket]]  # a connected socket for a client; raises OSError


class Forward(Protocol):
    async def close(self) -> None: ...


class ConnectionForward(Splices):
    @classmethod
    async def open(cls, listener: socket.socket, dial: Dial) -> "ConnectionForward":
        ends: dict[End, None] = {}
        loop = asyncio.get_running_loop()
        return cls(await loop.create_server(lambda: _Connection(ends, dial), sock=listener), ends)


class _Connection(Incoming):
    def __init__(self, ends: dict[End, None], dial: Dial) -> None:
        super().__init__(ends)
        self._dial = dial

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.begin(self._lead(peer[0] if peer else ""))

    async def _lead(self, client: str) -> None:
        """A client whose endpoint cannot be reached is cut off as abruptly as it would be refused."""
        try:
            await self.join_socket(await self._dial(client))
        except OSError:
            if self.transport is not None:
                found = self.transport.get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self.transport.abort()


class DatagramForward:
    """Each client has a flow of its own, to one endpoint, until it has been silent for a while."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._flows: dict[tuple[str, int], _Flow] = {}
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def open(cls, bound: socket.socket, dial: Dial) -> "DatagramForward":
        forward = cls(dial)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Clients(forward), sock=bound)
        forward._transport = transport
        return forward

    def received(self, data: bytes, client: tuple[str, int]) -> None:
        flow = self._flows.get(client)
        if flow is None:
            if len(self._flows) >= _FLOWS_MAX:
                return
            flow = self._flows[client] = _Flow(self, client)
            flow.begin(self._dial(client[0]))
        flow.send(data)

    def reply(self, data: bytes, client: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, client)

    def ended(self, client: tuple[str, int]) -> None:
        self._flows.pop(client, None)

    def forget(self, usable: Callable[[tuple[str, int]], bool]) -> None:
        """Ends the flows to endpoints that cannot be used any more."""
        for flow in [*self._flows.values()]:
            if flow.peer is not None and not usable(flow.peer):
                flow.close()

    async def close(self) -> None:
        for flow in [*self._flows.values()]:
            flow.close()
        if self._transport is not None:
            self._transport.close()


class _Clients(asyncio.DatagramProtocol):
    def __init__(self, forward: DatagramForward) -> None:
        self._forward = forward

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._forward.received(data, (addr[0], addr[1]))


class _Flow(asyncio.DatagramProtocol):
    def __init__(self, forward: DatagramForward, client: tuple[str, int]) -> None:
        self._forward = forward
        self._client = client
        self._transport: asyncio.DatagramTransport | None = None
        self._early: list[bytes] = []
        self._making: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.peer: tuple[str, int] | None = None

    def begin(self, dialing: Awaitable[socket.socket]) -> None:
        self._making = asyncio.ensure_future(self._make(dialing))
        self._touch()

    async def _make(self, dialing: Awaitable[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        try:
            connected = await dialing
            with suppress(OSError):
                host, port = connected.getpeername()
                self.peer = host, port
            await loop.create_datagram_endpoint(lambda: self, sock=connected)
        except OSError:
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        for data in self._early:
            self._transport.sendto(data)
        self._early.clear()

    def send(self, data: bytes) -> None:
        self._touch()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._early) < _EARLY_MAX:
            self._early.append(data)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._touch()
        self._forward.reply(data, self._client)

    def error_received(self, exc: Exception) -> None:
        """The endpoint refuses: the next datagram chooses again."""
        self.close()

    def _touch(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = asyncio.get_running_loop().call_later(_FLOW_SECONDS, self.close)

    def close(self) -> None:
        self._forward.ended(self._client)
        if self._expiry is not None:
            self._expiry.cancel()
        if self._transport is not None:
            self._transport.close()
        elif self._making is not None and self._making is not asyncio.current_task():
            self._making.cancel()

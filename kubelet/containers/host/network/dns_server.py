"""The cluster's name server: answers datagrams and connections."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import cast

from kubeskew.apimachinery.process.network_agent import DNS_ADDRESS, NetworkAgent
from kubeskew.kubelet.containers.host.network.dns import answer
from kubeskew.kubelet.containers.host.network.endpoints import Services

_PORT = 53
_LENGTH = struct.Struct("!H")
_IDLE_SECONDS = 10.0


class NameServer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, None] = {}

    async def start(self, agent: NetworkAgent) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        bound = agent.listen(None, DNS_ADDRESS, _PORT, socket.SOCK_DGRAM)
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self._services), sock=bound
        )
        listener = agent.listen(None, DNS_ADDRESS, _PORT)
        self._server = await asyncio.start_server(self._serve, sock=listener)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = None
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            while True:
                async with asyncio.timeout(_IDLE_SECONDS):
                    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                    query = await reader.readexactly(length)
                found = answer(self._services, query, is_datagram=False)
                if not found:
                    break
                writer.write(_LENGTH.pack(len(found)) + found)
                await writer.drain()
        self._connections.pop(writer, None)
        writer.close()

    async def stop(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for writer in [*self._connections]:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, services: Services) -> None:
        self._services = services
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        found = answer(self._services, data)
        if found and self._transport is not None:
            self._transport.sendto(found, addr)

"""Answers load balancers at a service's `healthCheckNodePort`: how many of its endpoints a node has.

Each node of each such service has a server on the machine's loopback, to which the port leads at the node's
address.

Source: pkg/proxy/healthcheck/service_health.go, pkg/proxy/endpointschangetracker.go, 1.36.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import is_of_node, node_uid
from kubeskew.kubelet.containers.host.network.endpoints import (
    Endpoint,
    Services,
    endpoints_of,
    service_ports,
)
from kubeskew.kubelet.containers.host.network.service_ports import LOOPBACK, MACHINE, Listen, Node, Target

_REQUEST_SECONDS = 10.0
_END_OF_HEAD = b"\r\n\r\n"
_REASONS = {200: "OK", 503: "Service Unavailable"}


class Check(NamedTuple):
    """The port of a service at one node."""

    namespace: str
    service: str
    node: Node
    port: int

    def listens(self) -> Sequence[Listen]:
        inside = Listen(node_uid(self.node.name), "", self.port, "TCP")
        if not is_of_node(self.node.address):
            return (inside,)
        return (inside, Listen(MACHINE, self.node.address, self.port, "TCP"))


def checks_of(services: Iterable[Object], tables: Services, nodes: Sequence[Node]) -> dict[Check, int]:
    """The numbers of addresses that are ready on each node; an address counts once, whatever its ports."""
    found: dict[Check, int] = {}
    for service in services:
        metadata = service["metadata"]
        slices = tables.slices(metadata["namespace"], metadata["name"])
        ports = [port for port in service_ports(service) if port.health_port and port.local_outside]
        if not ports:
            continue
        endpoints = [each for port in ports for each in endpoints_of(slices, port.name, port.protocol)]
        for node in nodes:
            local = {each.host for each in endpoints if each.ready and each.node == node.name}
            check = Check(metadata["namespace"], metadata["name"], node, ports[0].health_port)
            found[check] = len(local)
    return found


def answer(check: Check, count: int) -> bytes:
    """The whole answer to whatever is asked for."""
    code = 200 if count else 503
    named = f'\t"namespace": {json.dumps(check.namespace)},\n\t\t"name": {json.dumps(check.service)}'
    healthy = f'\t"localEndpoints": {count},\n\t"serviceProxyHealthy": true'
    body = f'{{\n\t"service": {{\n\t{named}\n\t}},\n{healthy}\n}}'
    head = [
        f"HTTP/1.1 {code} {_REASONS[code]}",
        "Content-Type: application/json",
        "X-Content-Type-Options: nosniff",
        f"X-Load-Balancing-Endpoint-Weight: {count}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", body]).encode()


class HealthChecks:
    """The servers of all checks; `sync` after a change, and `close` in the end."""

    def __init__(self) -> None:
        self._counts: Mapping[Check, int] = {}
        self._servers: dict[Check, asyncio.Server] = {}

    async def sync(self, wanted: Mapping[Check, int]) -> dict[Listen, Target]:
        """Returns the ports at which the checks are to be reached, and where they lead."""
        self._counts = {**wanted}
        for check in [check for check in self._servers if check not in wanted]:
            await _close(self._servers.pop(check))
        for check in wanted:
            if check not in self._servers:
                self._servers[check] = await self._open(check)
        return {
            listen: Target((Endpoint(*_address(server)),), is_outside=True)
            for check, server in self._servers.items()
            for listen in check.listens()
        }

    async def close(self) -> None:
        for server in self._servers.values():
            await _close(server)
        self._servers.clear()

    async def _open(self, check: Check) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_REQUEST_SECONDS):
                    await reader.readuntil(_END_OF_HEAD)
                    writer.write(answer(check, self._counts.get(check, 0)))
                    await writer.drain()
            writer.close()

        return await asyncio.start_server(serve, LOOPBACK, 0)


def _address(server: asyncio.Server) -> tuple[str, int]:
    host, port = server.sockets[0].getsockname()
    return host, port


async def _close(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()

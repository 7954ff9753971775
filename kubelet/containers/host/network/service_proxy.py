"""Serves ports of services in user space: it listens at them and joins each connection to one endpoint.

Unlike kube-proxy it accepts a connection before the endpoint does, and the endpoint sees the gateway's
address instead of the client's.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import IPv4Address

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.process.network_agent import SERVICE_RANGE, NetworkAgent, NetworkAgentError
from kubeskew.kubelet.containers.host.network.endpoints import Affinity
from kubeskew.kubelet.containers.host.network.forwarding import ConnectionForward, DatagramForward
from kubeskew.kubelet.containers.host.network.service_ports import CLUSTER, MACHINE, Listen, Target

log = logging.getLogger(__name__)

_BACKLOG = 128
_DIAL_SECONDS = 60.0
_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}

NodeOf = Callable[[str], str]  # the node of a client's address; empty if it is unknown


class ServiceProxy:
    def __init__(self, agent: NetworkAgent, node_of: NodeOf, clock: Clock, entropy: Entropy) -> None:
        self._agent = agent
        self._node_of = node_of
        self._clock = clock
        self._entropy = entropy
        self._ports: dict[Listen, _Port] = {}
        self._refused: dict[Listen, str] = {}

    @property
    def served(self) -> list[Listen]:
        return [*self._ports]

    async def sync(self, wanted: Mapping[Listen, Target]) -> None:
        """Ports that cannot be listened at are logged, and tried again the next time."""
        for listen in [listen for listen in self._ports if listen not in wanted]:
            await self._ports.pop(listen).close()
            if _is_external(listen) and all(other[:2] != listen[:2] for other in self._ports):
                with suppress(NetworkAgentError):
                    await asyncio.to_thread(self._agent.remove_address, listen.host)
        for listen, target in wanted.items():
            port = self._ports.get(listen)
            if port is not None:
                port.update(target)
                continue
            try:
                self._ports[listen] = await self._open(listen, target)
                self._refused.pop(listen, None)
            except OSError as error:
                if self._refused.get(listen) != str(error):
                    log.warning("cannot serve %s %s:%d: %s", *listen[:3], error)
                self._refused[listen] = str(error)

    async def close(self) -> None:
        for port in self._ports.values():
            await port.close()
        self._ports.clear()

    async def _open(self, listen: Listen, target: Target) -> "_Port":
        port = _Port(self, target)
        kind = _KINDS[listen.protocol]
        if _is_external(listen):
            await asyncio.to_thread(self._agent.add_address, listen.host)
        bound = (
            _listen_outside(listen, kind)
            if listen.place == MACHINE
            else await asyncio.to_thread(
                self._agent.listen,
                None if listen.place == CLUSTER else listen.place,
                listen.host,
                listen.port,
                kind,
            )
        )
        bound.setblocking(False)
        opening = ConnectionForward if kind == socket.SOCK_STREAM else DatagramForward
        port.forward = await opening.open(bound, lambda client: port.dial(client, kind))
        return port

    async def dial(self, port: "_Port", client: str, kind: socket.SocketKind) -> socket.socket:
        """Raises OSError."""
        target = port.target
        candidates = target.candidates(self._node_of(client))
        if not candidates:
            raise ConnectionRefusedError("no endpoint can be used")
        number = int(self._entropy.random() * len(candidates))
        chosen = port.affinity.choose(client, candidates, number, self._clock.monotonic())
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                if not target.is_outside:
                    return await self._agent.dial(None, *chosen.at, kind)
                return await _dial_outside(chosen.at, kind)
        except TimeoutError as error:
            raise OSError(str(error)) from error


class _Port:
    """One port that is served."""

    def __init__(self, proxy: ServiceProxy, target: Target) -> None:
        self._proxy = proxy
        self.target = target
        self.affinity = Affinity(target.affinity_seconds)
        self.forward: ConnectionForward | DatagramForward | None = None

    def update(self, target: Target) -> None:
        if target == self.target:
            return
        if target.affinity_seconds != self.target.affinity_seconds:
            self.affinity = Affinity(target.affinity_seconds)
        self.target = target
        if isinstance(self.forward, DatagramForward):
            places = {endpoint.at for endpoint in target.endpoints}
            self.forward.forget(places.__contains__)

    async def dial(self, client: str, kind: socket.SocketKind) -> socket.socket:
        """Raises OSError."""
        return await self._proxy.dial(self, client, kind)

    async def close(self) -> None:
        if self.forward is not None:
            await self.forward.close()


def _is_external(listen: Listen) -> bool:
    """The cluster's namespace has such an address for its ports alone."""
    return listen.place == CLUSTER and IPv4Address(listen.host) not in SERVICE_RANGE


def _listen_outside(listen: Listen, kind: socket.SocketKind) -> socket.socket:
    """Raises OSError."""
    bound = socket.socket(socket.AF_INET, kind)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
        bound.bind((listen.host, listen.port))
        if kind == socket.SOCK_STREAM:
            bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


async def _dial_outside(address: tuple[str, int], kind: socket.SocketKind) -> socket.socket:
    """Raises OSError."""
    connected = socket.socket(socket.AF_INET, kind)
    connected.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connected, address)
    except BaseException:
        connected.close()
        raise
    return connected

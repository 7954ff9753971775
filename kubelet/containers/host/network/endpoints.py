"""The endpoints of services: kube-proxy's rules about which of them a connection may go to.

Hints about topology are not followed: all nodes are on one machine.

Source: pkg/proxy (serviceport.go, endpointslicecache.go, topology.go), 1.36.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.objects import Object

SERVICE_NAME = "kubernetes.io/service-name"
PROXY_NAME = "service.kubernetes.io/service-proxy-name"
_AFFINITY_SECONDS = 10800
_PROTOCOLS = ("TCP", "UDP")
_IPV4 = "IPv4"


class Services(Protocol):
    """The services of a cluster, with their endpoints."""

    def service(self, namespace: str, name: str) -> Object | None: ...

    def slices(self, namespace: str, name: str) -> Sequence[Object]: ...

    def has_namespace(self, name: str) -> bool: ...

    def of_address(self, address: str) -> Sequence[Object]:
        """Services with that cluster IP."""
        ...


class Endpoint(NamedTuple):
    host: str
    port: int
    node: str = ""
    ready: bool = True
    serving: bool = True
    terminating: bool = False

    @property
    def at(self) -> tuple[str, int]:
        return self.host, self.port


class ServicePort(NamedTuple):
    """One port of a service, as a proxy serves it."""

    namespace: str
    service: str
    name: str
    protocol: str  # TCP or UDP
    cluster_ip: str
    port: int
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    local_inside: bool = False  # internalTrafficPolicy: Local
    local_outside: bool = False  # externalTrafficPolicy: Local
    affinity_seconds: int = 0  # 0: none
    health_port: int = 0  # of externalTrafficPolicy: Local


def service_ports(service: Object) -> Iterator[ServicePort]:
    """Ports without a cluster IP, and those of another proxy, are not served."""
    metadata, spec = service["metadata"], service.get("spec") or {}
    cluster_ip = spec.get("clusterIP") or ""
    if cluster_ip in {"", "None"} or spec.get("type") == "ExternalName" or not is_ipv4(cluster_ip):
        return
    if PROXY_NAME in (metadata.get("labels") or {}):
        return
    has_affinity = spec.get("sessionAffinity") == "ClientIP"
    affinity = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    external = [
        *(spec.get("externalIPs") or ()),
        *(entry["ip"] for entry in ingress if entry.get("ip") and entry.get("ipMode") != "Proxy"),
    ]
    for port in spec.get("ports") or ():
        if (protocol := port.get("protocol") or "TCP") not in _PROTOCOLS:
            continue
        yield ServicePort(
            metadata["namespace"],
            metadata["name"],
            port.get("name") or "",
            protocol,
            cluster_ip,
            int(port["port"]),
            int(port.get("nodePort") or 0),
            tuple(address for address in external if is_ipv4(address)),
            spec.get("internalTrafficPolicy") == "Local",
            spec.get("externalTrafficPolicy") == "Local",
            int(affinity or _AFFINITY_SECONDS) if has_affinity else 0,
            int(spec.get("healthCheckNodePort") or 0),
        )


def endpoints_of(slices: Iterable[Object], port_name: str, protocol: str) -> list[Endpoint]:
    """All endpoints of a service's port, in the order of their addresses.

    Where two have the same address, one that does not terminate is kept.
    """
    found: dict[tuple[str, int], Endpoint] = {}
    for part in slices:
        if (part.get("addressType") or _IPV4) != _IPV4:
            continue
        for port in part.get("ports") or ():
            if (port.get("name") or "") != port_name or (port.get("protocol") or "TCP") != protocol:
                continue
            if not port.get("port"):
                continue
            for endpoint in map(_endpoint, part.get("endpoints") or (), _forever(int(port["port"]))):
                if endpoint is not None and (endpoint.at not in found or not endpoint.terminating):
                    found[endpoint.at] = endpoint
    return [found[at] for at in sorted(found)]


def _forever(port: int) -> Iterator[int]:
    while True:
        yield port


def _endpoint(value: Object, port: int) -> Endpoint | None:
    addresses = value.get("addresses") or ()
    if not addresses:
        return None
    conditions = value.get("conditions") or {}
    return Endpoint(
        addresses[0],
        port,
        value.get("nodeName") or "",
        conditions.get("ready") is not False,
        conditions.get("serving") is not False,
        conditions.get("terminating") is True,
    )


def usable(endpoints: Iterable[Endpoint], *, local_to: str | None = None) -> list[Endpoint]:
    """Those that are ready; if none is, those that still serve while they terminate. `local_to` restricts
    them to a node.
    """
    near = [endpoint for endpoint in endpoints if local_to is None or endpoint.node == local_to]
    ready = [endpoint for endpoint in near if endpoint.ready]
    return ready or [endpoint for endpoint in near if endpoint.serving and endpoint.terminating]


class Affinity:
    """Clients' endpoints of one service port, if it has session affinity."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._clients: dict[str, tuple[tuple[str, int], float]] = {}

    def choose(self, client: str, candidates: Sequence[Endpoint], number: int, now: float) -> Endpoint:
        """A client without an endpoint that can still be used gets that of a random `number`."""
        if not self._seconds:
            return candidates[number % len(candidates)]
        self._forget(now)
        before = self._clients.pop(client, None)
        chosen = next(
            (endpoint for endpoint in candidates if before is not None and endpoint.at == before[0]),
            candidates[number % len(candidates)],
        )
        self._clients[client] = chosen.at, now
        return chosen

    def _forget(self, now: float) -> None:
        """The oldest come first."""
        for client in [*self._clients]:
            if now - self._clients[client][1] < self._seconds:
                return
            del self._clients[client]


def is_headless(service: Object) -> bool:
    return (service.get("spec") or {}).get("clusterIP") == "None"


def is_ipv4(address: str) -> bool:
    try:
        IPv4Address(address)
    except ValueError:
        return False
    return True

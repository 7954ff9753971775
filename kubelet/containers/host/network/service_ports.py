"""The ports that are to be served for the objects of a cluster, and where each leads.

Services have theirs at cluster IPs, and node ports at the addresses of nodes and on the machine's loopback;
pods have host ports; a node's namespace has the port of its kubelet, which is a process outside, and the
usual one of kubelets.

Source: pkg/proxy/nftables/proxier.go, 1.36; pkg/kubelet (host ports by the container runtime).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import is_of_cluster, is_of_node, node_uid
from kubeskew.kubelet.containers.host.network.endpoints import (
    Endpoint,
    ServicePort,
    Services,
    endpoints_of,
    is_ipv4,
    service_ports,
    usable,
)

MACHINE = "machine"  # a place outside of the cluster's network
CLUSTER = "cluster"
KUBELET_PORT = 10250  # at which pods find the kubelet of any node
LOOPBACK = "127.0.0.1"
_OF_MACHINE = IPv4Network("127.0.0.0/16")  # nodes have the rest
_ENDED = frozenset({"Succeeded", "Failed"})


class Listen(NamedTuple):
    """A port in the machine, in the cluster's namespace, or in that of a node (by `node_uid`)."""

    place: str
    host: str  # empty: every address
    port: int
    protocol: str


class Target(NamedTuple):
    """Endpoints for connections to a port. `is_outside`: they are processes of the machine."""

    endpoints: tuple[Endpoint, ...]
    affinity_seconds: int = 0
    local_only: bool = False  # only those of the client's node are to be used
    is_outside: bool = False

    def candidates(self, node: str) -> list[Endpoint]:
        """`node` is the client's."""
        return usable(self.endpoints, local_to=node) if self.local_only else [*self.endpoints]


class Node(NamedTuple):
    name: str
    address: str
    kubelet_port: int = 0


def node_of(node: Object) -> Node | None:
    """None for a node without an address of IPv4."""
    status = node.get("status") or {}
    for address in status.get("addresses") or ():
        if address.get("type") == "InternalIP" and is_ipv4(address.get("address") or ""):
            port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
            return Node(node["metadata"]["name"], address["address"], int(port or 0))
    return None


def ports_to_serve(
    services: Iterable[Object],
    tables: Services,
    pods: Iterable[Object],
    nodes: Sequence[Node],
    outside: Mapping[str, tuple[str, int]],
    kept: frozenset[str] = frozenset(),
) -> dict[Listen, Target]:
    """`outside` are processes of the machine behind services, by NAMESPACE/NAME; addresses that are `kept`
    are served by others. A port without an endpoint is left out: connections to it are refused.

    Anybody who may change a node's status gives it an address. Where it is one that not only nodes have,
    nothing is opened there, and pods are not led to it.
    """
    found: dict[Listen, Target] = {}
    for service in services:
        metadata = service["metadata"]
        address = outside.get(f"{metadata['namespace']}/{metadata['name']}")
        slices = tables.slices(metadata["namespace"], metadata["name"])
        for port in service_ports(service):
            endpoints = (
                [Endpoint(*address)]
                if address is not None
                else endpoints_of(slices, port.name, port.protocol)
            )
            if port.cluster_ip not in kept:
                found.update(_of_service(port, endpoints, nodes))
    for listen, target in _of_host_ports(pods, {node.name: node.address for node in nodes}):
        found.setdefault(listen, target)
    for node in nodes:
        if node.kubelet_port and is_of_node(node.address):
            kubelet = Target((Endpoint(node.address, node.kubelet_port, node.name),), is_outside=True)
            for number in (node.kubelet_port, KUBELET_PORT):
                found.setdefault(Listen(node_uid(node.name), node.address, number, "TCP"), kubelet)
    return {listen: target for listen, target in found.items() if target.endpoints}


def _of_service(
    port: ServicePort, endpoints: Sequence[Endpoint], nodes: Sequence[Node]
) -> Iterator[tuple[Listen, Target]]:
    everywhere = tuple(usable(endpoints))
    is_outside = bool(everywhere) and all(map(_is_outside, everywhere))
    anywhere = Target(everywhere, port.affinity_seconds, is_outside=is_outside)
    inside = Target(tuple(endpoints), port.affinity_seconds, local_only=True)
    yield (
        Listen(CLUSTER, port.cluster_ip, port.port, port.protocol),
        (inside if port.local_inside and not is_outside else anywhere),
    )
    for address in filter(_is_external, port.external_ips):
        yield Listen(CLUSTER, address, port.port, port.protocol), anywhere
    if not port.node_port:
        return
    yield Listen(MACHINE, LOOPBACK, port.node_port, port.protocol), anywhere
    for node in nodes:
        target = anywhere
        if port.local_outside:
            target = anywhere._replace(endpoints=tuple(usable(endpoints, local_to=node.name)))
        yield Listen(node_uid(node.name), "", port.node_port, port.protocol), target
        if is_of_node(node.address):
            yield Listen(MACHINE, node.address, port.node_port, port.protocol), target


def _is_external(address: str) -> bool:
    """Pods and nodes keep theirs: a service that claims the address of one does not cut it off."""
    return not is_of_cluster(address) and not IPv4Address(address).is_loopback


def _is_outside(endpoint: Endpoint) -> bool:
    """No user can give endpoints such addresses: they are the API servers', and the cluster's own."""
    return is_ipv4(endpoint.host) and IPv4Address(endpoint.host) in _OF_MACHINE


def _of_host_ports(pods: Iterable[Object], nodes: Mapping[str, str]) -> Iterator[tuple[Listen, Target]]:
    for pod in pods:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        node, address = spec.get("nodeName") or "", status.get("podIP") or ""
        if spec.get("hostNetwork") or node not in nodes or not is_ipv4(address):
            continue
        if status.get("phase") in _ENDED:
            continue
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        for port in (port for container in containers for port in container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            protocol, host = port.get("protocol") or "TCP", port.get("hostIP") or ""
            target = Target((Endpoint(address, int(port["containerPort"]), node),))
            number = int(port["hostPort"])
            any_address = host in {"", "0.0.0.0"}  # noqa: S104 - a name, not a socket
            yield Listen(node_uid(node), "" if any_address else host, number, protocol), target
            if (any_address or host == nodes[node]) and is_of_node(nodes[node]):
                yield Listen(MACHINE, nodes[node], number, protocol), target

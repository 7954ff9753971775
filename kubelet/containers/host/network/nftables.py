"""Rules for nft: connections to services are led to endpoints by the kernel, and policies are enforced.

Services whose endpoint depends on more than chance (affinity, a client's node), and datagrams, whose flows
would have to be forgotten with their endpoints, stay with the proxy in user space.

Source: pkg/proxy/nftables (proxier.go, README.md), 1.36; nft(8).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kubeskew.apimachinery.process.network_agent import SERVICE_RANGE, node_uid
from kubeskew.kubelet.containers.host.network.policies import Allowed, PodRules, Ports
from kubeskew.kubelet.containers.host.network.service_ports import CLUSTER, Listen, Node, Target

TABLE = "kubeskew"
PROBE = f"add table ip {TABLE}\n"


def by_kernel(wanted: Mapping[Listen, Target], nodes: Mapping[str, str]) -> dict[Listen, Target]:
    """Ports that the kernel serves, those of nodes at their addresses (`nodes`, by `node_uid`)."""
    found: dict[Listen, Target] = {}
    for listen, target in wanted.items():
        if listen.protocol != "TCP" or target.is_outside or target.local_only or target.affinity_seconds:
            continue
        if listen.place == CLUSTER:
            found[listen] = target
        elif listen.place in nodes and listen.host in {"", nodes[listen.place]}:
            found[listen._replace(host=nodes[listen.place])] = target
    return found


def script(served: Mapping[Listen, Target], rules: Sequence[PodRules]) -> str:
    """All rules at once; they replace those before."""
    lines = [f"add table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    lines += _services(served)
    lines += _policies(rules)
    return "\n".join([*lines, "}", ""])


def _services(served: Mapping[Listen, Target]) -> Iterator[str]:
    ports = sorted((listen.host, listen.port, target) for listen, target in served.items())
    elements: list[str] = []
    hosts: dict[str, None] = {}
    for number, (host, port, target) in enumerate(ports):
        elements.append(f"{host} . {port} : goto service-{number}")
        endpoints = target.endpoints
        hosts |= dict.fromkeys(endpoint.host for endpoint in endpoints)
        places = ", ".join(f"{at} : {one.host} . {one.port}" for at, one in enumerate(endpoints))
        yield f"  chain service-{number} {{"
        yield f"    ip protocol tcp dnat ip to numgen random mod {len(endpoints)} map {{ {places} }}"
        yield "  }"
    yield "  map services {"
    yield "    type ipv4_addr . inet_service : verdict"
    if elements:
        yield f"    elements = {{ {', '.join(elements)} }}"
    yield "  }"
    yield "  set hairpins {"  # clients that are led to themselves
    yield "    type ipv4_addr . ipv4_addr"
    if hosts:
        yield f"    elements = {{ {', '.join(f'{host} . {host}' for host in sorted(hosts))} }}"
    yield "  }"
    for hook in ("prerouting", "output"):
        yield f"  chain {hook} {{"
        yield f"    type nat hook {hook} priority -100; policy accept;"
        yield "    ip daddr . tcp dport vmap @services"
        yield "  }"
    yield "  chain postrouting {"
    yield "    type nat hook postrouting priority 100; policy accept;"
    yield "    ct status dnat ip saddr . ip daddr @hairpins masquerade"
    yield f"    ct status dnat ip saddr {SERVICE_RANGE} masquerade"  # from the cluster's own namespace
    yield "  }"


def _policies(rules: Sequence[PodRules]) -> Iterator[str]:
    """A packet between two pods has to pass what the sender may send, then what the other may receive."""
    sending = {pod.address: pod.egress for pod in rules if pod.egress is not None}
    receiving = {pod.address: pod.ingress for pod in rules if pod.ingress is not None}
    for name, given, far in (("egress", sending, "daddr"), ("ingress", receiving, "saddr")):
        for number, address in enumerate(sorted(given)):
            yield f"  chain {name}-{number} {{"
            for allowed in given[address]:
                yield from (f"    {match}return" for match in _matches(allowed, far))
            yield "    drop"
            yield "  }"
    if not rules:
        return
    yield "  chain forward {"
    yield "    type filter hook forward priority 0; policy accept;"
    yield "    ct state established,related accept"
    for name, given, near in (("egress", sending, "saddr"), ("ingress", receiving, "daddr")):
        if given:
            jumps = ", ".join(f"{address} : jump {name}-{at}" for at, address in enumerate(sorted(given)))
            yield f"    ip {near} vmap {{ {jumps} }}"
    yield "  }"


def _matches(allowed: Allowed, far: str) -> Iterator[str]:
    peers = f"ip {far} {{ {', '.join(allowed.peers)} }} " if allowed.peers else ""
    excepted = "".join(f"ip {far} != {block} " for block in allowed.excepted)  # a set refuses overlaps
    for port in allowed.ports or (None,):
        yield peers + excepted + (_port(port) if port is not None else "")


def _port(port: Ports) -> str:
    protocol = port.protocol.lower()
    if not port.first:
        return f"meta l4proto {protocol} "
    return (
        f"{protocol} dport {port.first}-{port.last} "
        if port.last != port.first
        else (f"{protocol} dport {port.first} ")
    )


def nodes_by_place(nodes: Iterable[Node]) -> dict[str, str]:
    """Addresses of nodes by the place that a Listen has."""
    return {node_uid(node.name): node.address for node in nodes}

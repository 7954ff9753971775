"""NetworkPolicies as what each pod may receive and send: a function of the objects.

Source: the documentation of networking.k8s.io/v1 (NetworkPolicySpec and what is in it), 1.36.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import is_of_cluster
from kubeskew.apimachinery.selectors.labels import LabelSelector

_ENDED = frozenset({"Succeeded", "Failed"})


class Ports(NamedTuple):
    """A range of ports of a protocol; no first one: all."""

    protocol: str
    first: int = 0
    last: int = 0


class Allowed(NamedTuple):
    """One rule. No peers: all but those `excepted`; no ports: all."""

    peers: tuple[str, ...] = ()  # addresses and CIDRs
    excepted: tuple[str, ...] = ()
    ports: tuple[Ports, ...] = ()


class PodRules(NamedTuple):
    """The rules of a pod; None: it is not isolated in that direction."""

    address: str
    ingress: tuple[Allowed, ...] | None
    egress: tuple[Allowed, ...] | None


def rules_of_pods(
    policies: Iterable[Object], pods: Iterable[Object], namespaces: Iterable[Object]
) -> list[PodRules]:
    """Only pods with an address of their own, and with a policy that selects them."""
    given = [*policies]
    if not given:
        return []
    cluster = _Cluster([pod for pod in pods if _has_network(pod)], namespaces)
    found = [_of_pod(pod, given, cluster) for pod in cluster.pods]
    return [rules for rules in found if rules.ingress is not None or rules.egress is not None]


class _Cluster:
    def __init__(self, pods: Sequence[Object], namespaces: Iterable[Object]) -> None:
        self.pods = pods
        self._labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces}

    def select(self, peer: Object, namespace: str) -> Iterator[Object]:
        """Pods of a peer that is no block of addresses; `namespace` is the policy's."""
        pod_selector, namespace_selector = peer.get("podSelector"), peer.get("namespaceSelector")
        for pod in self.pods:
            place = pod["metadata"]["namespace"]
            if namespace_selector is None:
                fits = place == namespace
            else:
                fits = _matches(namespace_selector, self._labels.get(place, {}))
            if fits and (pod_selector is None or _matches(pod_selector, _labels(pod))):
                yield pod


def _of_pod(pod: Object, policies: Sequence[Object], cluster: _Cluster) -> PodRules:
    ingress: list[Allowed] | None = None
    egress: list[Allowed] | None = None
    for policy in policies:
        namespace, spec = policy["metadata"]["namespace"], policy.get("spec") or {}
        if namespace != pod["metadata"]["namespace"]:
            continue
        if not _matches(spec.get("podSelector") or {}, _labels(pod)):
            continue
        types = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
        if "Ingress" in types:
            ingress = [*(ingress or ())]
            for rule in spec.get("ingress") or ():
                ingress += _ingress(rule, pod, namespace, cluster)
        if "Egress" in types:
            egress = [*(egress or ())]
            for rule in spec.get("egress") or ():
                egress += _egress(rule, namespace, cluster)
    return PodRules(
        pod["status"]["podIP"],
        None if ingress is None else tuple(ingress),
        None if egress is None else tuple(egress),
    )


def _ingress(rule: Object, pod: Object, namespace: str, cluster: _Cluster) -> Iterator[Allowed]:
    """Named ports are the pod's own."""
    ports = _ports(rule, pod)
    if ports is None:
        return
    for allowed in _peers(rule.get("from"), namespace, cluster):
        yield allowed._replace(ports=ports)


def _egress(rule: Object, namespace: str, cluster: _Cluster) -> Iterator[Allowed]:
    """Named ports are those of each peer."""
    if not any(isinstance(port.get("port"), str) for port in rule.get("ports") or ()):
        for allowed in _peers(rule.get("to"), namespace, cluster):
            yield allowed._replace(ports=_ports(rule, {}) or ())
        return
    peers = rule.get("to") or [{"namespaceSelector": {}}]
    for pod in (pod for peer in peers if "ipBlock" not in peer for pod in cluster.select(peer, namespace)):
        ports = _ports(rule, pod)
        if ports is not None:
            yield Allowed((pod["status"]["podIP"],), ports=ports)


def _peers(peers: Sequence[Object] | None, namespace: str, cluster: _Cluster) -> Iterator[Allowed]:
    """A selector that selects nobody allows nobody, and so does a block of IPv6."""
    if not peers:
        yield Allowed()
        return
    addresses: dict[str, None] = {}
    for peer in peers:
        block = peer.get("ipBlock")
        if block:
            excepted = tuple(cidr for cidr in block.get("except") or () if _is_ipv4_block(cidr))
            if _is_ipv4_block(block["cidr"]):
                yield Allowed((block["cidr"],), excepted)
        else:
            addresses |= dict.fromkeys(pod["status"]["podIP"] for pod in cluster.select(peer, namespace))
    if addresses:
        yield Allowed(tuple(sorted(addresses)))


def _is_ipv4_block(cidr: str) -> bool:
    try:
        IPv4Network(cidr, strict=False)
    except ValueError:
        return False
    return True


def _ports(rule: Object, pod: Object) -> tuple[Ports, ...] | None:
    """Empty for all ports; None if names leave none."""
    given = rule.get("ports")
    if not given:
        return ()
    found = []
    for port in given:
        protocol, number = port.get("protocol") or "TCP", port.get("port")
        if isinstance(number, str):
            found += [Ports(protocol, named, named) for named in _named(pod, number, protocol)]
        elif number is None:
            found.append(Ports(protocol))
        else:
            found.append(Ports(protocol, int(number), int(port.get("endPort") or number)))
    return tuple(found) or None


def _named(pod: Object, name: str, protocol: str) -> Iterator[int]:
    spec = pod.get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                yield int(port["containerPort"])


def _matches(selector: Object, labels: Mapping[str, str]) -> bool:
    return LabelSelector.from_object(selector).matches(labels)


def _labels(pod: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return found


def _has_network(pod: Object) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("hostNetwork") or status.get("phase") in _ENDED:
        return False
    return is_of_cluster(status.get("podIP") or "")

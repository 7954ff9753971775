"""Judges addresses: I20 unique-address."""

from collections.abc import Iterator
from ipaddress import ip_network

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.invariants.cluster import Change, Cluster, is_terminal, named, uid_of
from kubeskew.conformance.invariants.invariant import SafetyInvariant


class UniqueAddress(SafetyInvariant):
    """I20: no cluster IP, node port, pod IP or pod CIDR is held twice."""

    code = "I20"
    name = "unique-address"

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        if change.now is None or change.write.resource not in {"services", "pods", "nodes"}:
            return
        resource = change.write.resource
        mine = _held(resource, change.now) - (_held(resource, change.before) if change.before else set())
        if not mine:
            return
        for other in cluster.all(resource):
            if uid_of(other) == uid_of(change.now):
                continue
            for address in sorted(mine & _held(resource, other)):
                yield f"{change.text} got {address}, which {named(other)} holds"
            for address in sorted(mine):
                yield from _overlaps(change, address, other)


def _held(resource: str, obj: ObjectView) -> set[str]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource == "services":
        addresses = {spec.get("clusterIP"), *(spec.get("clusterIPs") or [])} - {None, "", "None"}
        ports = spec.get("ports") or []
        return addresses | {
            f"node port {port['nodePort']}/{port.get('protocol') or 'TCP'}"
            for port in ports
            if port.get("nodePort")
        }
    if resource == "nodes":
        return {f"CIDR {cidr}" for cidr in spec.get("podCIDRs") or []}
    if spec.get("hostNetwork") or is_terminal(obj):
        return set()
    return {entry["ip"] for entry in status.get("podIPs") or [] if entry.get("ip")}


def _overlaps(change: Change, address: str, other: ObjectView) -> Iterator[str]:
    if not address.startswith("CIDR "):
        return
    mine = ip_network(address.removeprefix("CIDR "))
    for cidr in (other.get("spec") or {}).get("podCIDRs") or []:
        network = ip_network(cidr)
        if network.version == mine.version and network != mine and network.overlaps(mine):
            yield f"{change.text} got {address}, which overlaps {cidr} of {named(other)}"

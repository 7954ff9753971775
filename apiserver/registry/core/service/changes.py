"""Merges an update of a service with what the server gave the old one.

Source: pkg/registry/core/service (storage/storage.go, strategy.go), 1.36. All functions change `new`.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.service.allocation import NODE_PORT_TYPES, node_ports
from kubeskew.apiserver.registry.core.service.traffic import is_external, needs_health_check

_OF_ADDRESSES = ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


def patch_allocated(new: Object, old: Object) -> None:
    """Keeps what a change leaves out: addresses, node ports by the ports' names, the health check's port."""
    if _has_address(new) and _has_address(old):
        for name in ("clusterIP", "clusterIPs"):
            if not new.get(name) and old.get(name):
                new[name] = old[name]
    if _has_ports(new) and _has_ports(old):
        used = set(node_ports(old)) & set(node_ports(new))
        known = {port.get("name") or "": port.get("nodePort") or 0 for port in old.get("ports") or ()}
        for port in new.get("ports") or ():
            before = known.get(port.get("name") or "", 0)
            if not port.get("nodePort") and before and before not in used:
                port["nodePort"] = before
    if needs_health_check(new) and needs_health_check(old) and not new.get("healthCheckNodePort"):
        new["healthCheckNodePort"] = old.get("healthCheckNodePort") or 0


def normalize_addresses(new: Object, old: Object) -> None:
    """Completes one of `clusterIP` and `clusterIPs` from clients that know only the other."""
    one, several = new.get("clusterIP"), new.get("clusterIPs")
    if not old:
        if one and not several:
            new["clusterIPs"] = [one]
        return
    if one == old.get("clusterIP"):
        if old.get("clusterIPs") and not several:
            new["clusterIPs"] = old["clusterIPs"]
    elif several == old.get("clusterIPs"):
        if one:
            new["clusterIPs"] = [one]
        else:
            new.pop("clusterIPs", None)


def drop_outdated(new: Object, old: Object) -> None:
    """Drops the fields that only the old type needed, if they were left as they were
    (dropTypeDependentFields).
    """
    if _has_address(old) and not _has_address(new):
        if all(new.get(name) == old.get(name) for name in ("clusterIP", "clusterIPs")):
            new.pop("clusterIP", None)
            new.pop("clusterIPs", None)
        for name in _OF_ADDRESSES:
            if new.get(name) == old.get(name):
                new.pop(name, None)
    if _has_ports(old) and not _has_ports(new) and set(node_ports(new)) <= set(node_ports(old)):
        for port in new.get("ports") or ():
            port.pop("nodePort", None)
    balancer = [spec.get("type") == "LoadBalancer" for spec in (new, old)]
    for name, (now, before) in (
        ("healthCheckNodePort", [needs_health_check(spec) for spec in (new, old)]),
        ("allocateLoadBalancerNodePorts", balancer),
        ("loadBalancerClass", balancer),
        ("externalTrafficPolicy", [is_external(spec) for spec in (new, old)]),
    ):
        if before and not now and new.get(name) == old.get(name):
            new.pop(name, None)


def _has_address(spec: Object) -> bool:
    return spec.get("type") != "ExternalName"


def _has_ports(spec: Object) -> bool:
    return spec.get("type") in NODE_PORT_TYPES

"""Services: the addresses and node ports that the server gives them.

Source: pkg/registry/core/service (strategy.go, storage/alloc.go), 1.36. One address family, the range's.
"""

import ipaddress
from collections.abc import Iterator

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError, index, invalid
from apiserver.registry.strategies.shared import BuiltIn, SpecKeptStatus
from apiserver.registry.strategy import Strategy, StrategyContext
from apiserver.registry.validation import services
from apiserver.registry.validation.service_allocation import NODE_PORTS, allocation_errors

_ATTEMPTS = 64
_NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
_RESOURCE = "services"


class ServiceStrategy(BuiltIn):
    status = SpecKeptStatus
    allow_create_on_update = True
    returns_deleted_object = True
    field_labels = ("spec.clusterIP", "spec.type")

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return []  # depends on a gate: `validate`

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec.get("clusterIPs") and not spec.get("clusterIP"):
            return  # refused by validation
        self._complete(spec, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        _carry_over(new["spec"], old["spec"])
        self._complete(new["spec"], ctx)

    def _complete(self, spec: Object, ctx: StrategyContext) -> None:
        if spec.get("type") == "ExternalName":
            return
        _allocate_address(spec, ctx)
        if _needs_node_ports(spec):
            _allocate_ports(spec, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        relaxed = ctx.gates.enabled("RelaxedServiceNameValidation")
        errors = [
            *services.name_errors(obj["metadata"], relaxed=relaxed),
            *services.service_errors(obj["spec"]),
        ]
        return errors or _allocation_errors(obj, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = services.service_errors(new["spec"])
        before, after = old["spec"], new["spec"]
        both = "ExternalName" not in {before.get("type"), after.get("type")}
        if both and before.get("clusterIP") and after.get("clusterIPs") != before.get("clusterIPs"):
            at = index("spec.clusterIPs", 0)
            errors.insert(0, invalid(at, after.get("clusterIPs"), "may not change once set"))
        return errors or _allocation_errors(new, ctx)


def _needs_node_ports(spec: Object) -> bool:
    if spec.get("type") == "NodePort":
        return True
    return spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False


def _carry_over(new: Object, old: Object) -> None:
    """What the server gave an old service stays unless the change says otherwise (patchAllocatedValues)."""
    external = "ExternalName"
    if new.get("type") == external:
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if new.get(name) == old.get(name):
                new.pop(name, None)
        return
    if old.get("type") != external:
        if not new.get("clusterIP") and old.get("clusterIP"):
            new["clusterIP"] = old["clusterIP"]
        changed = new.get("clusterIP") != old.get("clusterIP")
        if not new.get("clusterIPs") and not changed and old.get("clusterIPs"):
            new["clusterIPs"] = old["clusterIPs"]
        elif changed and new.get("clusterIPs") == old.get("clusterIPs"):
            new.pop("clusterIPs", None)
    known = {_port_key(port): port.get("nodePort") for port in old.get("ports") or []}
    for port in new.get("ports") or []:
        if new.get("type") in _NODE_PORT_TYPES:
            if not port.get("nodePort") and known.get(_port_key(port)):
                port["nodePort"] = known[_port_key(port)]
        elif old.get("type") in _NODE_PORT_TYPES and port.get("nodePort") == known.get(_port_key(port)):
            port.pop("nodePort", None)


def _port_key(port: Object) -> tuple[str, int]:
    return port.get("protocol") or "TCP", port.get("port") or 0


def _services(ctx: StrategyContext) -> Iterator[Object]:
    for service in ctx.list_entries(_RESOURCE, None):
        yield service.get("spec") or {}


def _allocation_errors(service: Object, ctx: StrategyContext) -> list[FieldError]:
    if service["spec"].get("type") == "ExternalName":
        return []
    mine = service["metadata"].get("uid")
    entries = ctx.list_entries(_RESOURCE, None)
    others = [one.get("spec") or {} for one in entries if one["metadata"].get("uid") != mine]
    return allocation_errors(service["spec"], others, ctx.service_ip_range)


def _allocate_address(spec: Object, ctx: StrategyContext) -> None:
    network = ipaddress.ip_network(ctx.service_ip_range)
    if not spec.get("clusterIP"):
        used = {one.get("clusterIP") for one in _services(ctx)}
        spec["clusterIP"] = _free_address(network, used, ctx)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", [f"IPv{network.version}"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _free_address(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, used: set[str | None], ctx: StrategyContext
) -> str:
    """A free address at random; the first is the server's own, the last is never given."""
    size = network.num_addresses - 3
    for _ in range(_ATTEMPTS):
        address = str(network[2 + int(ctx.entropy.random() * size)])
        if address not in used:
            return address
    for offset in range(size):
        address = str(network[2 + offset])
        if address not in used:
            return address
    return ""


def _allocate_ports(spec: Object, ctx: StrategyContext) -> None:
    wanting = [port for port in spec.get("ports") or [] if not port.get("nodePort")]
    if not wanting:
        return
    used = {port.get("nodePort") for one in _services(ctx) for port in one.get("ports") or []}
    used |= {port.get("nodePort") for port in spec["ports"]}
    for port in wanting:
        start = int(ctx.entropy.random() * len(NODE_PORTS))
        order = (*NODE_PORTS[start:], *NODE_PORTS[:start])
        port["nodePort"] = next((number for number in order if number not in used), 0)
        used.add(port["nodePort"])


STRATEGIES: dict[GroupResource, type[Strategy]] = {GroupResource("", _RESOURCE): ServiceStrategy}

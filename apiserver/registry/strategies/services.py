"""Services: the addresses and node ports that the server gives them.

Source: pkg/registry/core/service (strategy.go, storage/alloc.go), 1.36. One address family, the range's.
"""

import ipaddress
from collections.abc import Iterator

from apimachinery import errors
from apimachinery.errors import GroupKind, GroupResource, Object
from apimachinery.field import FieldError
from apiserver.registry.strategies import service_families
from apiserver.registry.strategies.shared import BuiltIn, SpecKeptStatus
from apiserver.registry.strategy import Strategy, StrategyContext
from apiserver.registry.validation import service_addresses, service_traffic, services
from apiserver.registry.validation.service_allocation import NODE_PORTS, allocation_errors
from apiserver.registry.validation.service_options import service_options
from apiserver.registry.warnings.services import service_warnings, status_warnings

_ATTEMPTS = 64
_STATUS_WARNINGS_SINCE = 34
_NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
_RESOURCE = "services"
_KIND = GroupKind("", "Service")


class ServiceStatusStrategy(SpecKeptStatus):
    """Only a load balancer has a status of one."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(service_traffic.status_errors(new, old, service_options(ctx.gates)))

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return status_warnings(new) if ctx.version.minor >= _STATUS_WARNINGS_SINCE else []


class ServiceStrategy(BuiltIn):
    exclusive = True
    status = ServiceStatusStrategy
    allow_create_on_update = True
    returns_deleted_object = True
    field_labels = ("spec.clusterIP", "spec.type")

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return []  # depends on a gate: `validate`

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"loadBalancer": {}}
        self._complete(obj, {}, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        _carry_over(new["spec"], old["spec"])
        self._complete(new, old["spec"], ctx)

    def _complete(self, obj: Object, before: Object, ctx: StrategyContext) -> None:
        """What the server gives a service (upstream's BeginCreate, before validation); raises 422."""
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if spec.get("type") == "ExternalName":
            return
        network = ipaddress.ip_network(ctx.service_ip_range)
        options = service_options(ctx.gates)
        if wrong := service_families.complete(spec, before, f"IPv{network.version}", options):
            raise errors.invalid(_KIND, obj["metadata"].get("name") or "", wrong)
        _allocate_address(spec, ctx)
        if _needs_node_ports(spec):
            _allocate_ports(spec, ctx)
        if service_traffic.needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            _allocate_health_port(spec, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        relaxed = ctx.gates.enabled("RelaxedServiceNameValidation")
        found = [
            *services.name_errors(obj["metadata"], relaxed=relaxed),
            *services.service_errors(obj, None, service_options(ctx.gates)),
        ]
        return found or _allocation_errors(obj, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        before, after = old["spec"], new["spec"]
        found = [
            *service_addresses.change_errors(after, before),
            *service_traffic.class_errors(after, before),
            *service_traffic.health_port_errors(after, before),
            *services.service_errors(new, old, service_options(ctx.gates)),
        ]
        return found or _allocation_errors(new, ctx)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return service_warnings(obj, ctx.version.minor)


def _needs_node_ports(spec: Object) -> bool:
    if spec.get("type") == "NodePort":
        return True
    return spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False


def _carry_over(new: Object, old: Object) -> None:
    """What the server gave an old service stays unless the change says otherwise (patchAllocatedValues)."""
    external = "ExternalName"
    _drop_outdated(new, old)
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


def _drop_outdated(new: Object, old: Object) -> None:
    """What the old type of a service needed goes with it, if it was left as it was."""
    balancer = [spec.get("type") == "LoadBalancer" for spec in (new, old)]
    checked = [service_traffic.needs_health_check(spec) for spec in (new, old)]
    reached = [service_traffic.is_external(spec) for spec in (new, old)]
    for name, (now, before) in (
        ("healthCheckNodePort", checked),
        ("allocateLoadBalancerNodePorts", balancer),
        ("loadBalancerClass", balancer),
        ("externalTrafficPolicy", reached),
    ):
        if before and not now and new.get(name) == old.get(name):
            new.pop(name, None)
    if all(checked) and not new.get("healthCheckNodePort"):
        new["healthCheckNodePort"] = old.get("healthCheckNodePort") or 0


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
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


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
    used = _used_ports(spec, ctx)
    for port in wanting:
        port["nodePort"] = _free_port(used, ctx)
        used.add(port["nodePort"])


def _used_ports(spec: Object, ctx: StrategyContext) -> set[int]:
    used = {port.get("nodePort") or 0 for port in spec.get("ports") or ()}
    for one in _services(ctx):
        used |= {port.get("nodePort") or 0 for port in one.get("ports") or ()}
        used.add(one.get("healthCheckNodePort") or 0)
    return used


def _free_port(used: set[int], ctx: StrategyContext) -> int:
    start = int(ctx.entropy.random() * len(NODE_PORTS))
    order = (*NODE_PORTS[start:], *NODE_PORTS[:start])
    return next((number for number in order if number not in used), 0)


def _allocate_health_port(spec: Object, ctx: StrategyContext) -> None:
    spec["healthCheckNodePort"] = _free_port(_used_ports(spec, ctx), ctx)


STRATEGIES: dict[GroupResource, type[Strategy]] = {GroupResource("", _RESOURCE): ServiceStrategy}

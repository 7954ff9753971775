"""Service: defaults, strategies, what an update keeps of the old object, and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/service (strategy.go, storage/storage.go),
pkg/printers/internalversion/printers.go, 1.36.
"""

import ipaddress

from kubeskew.apimachinery import errors, names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.core.service import allocation, validation
from kubeskew.apiserver.registry.core.service.allocation import KIND, NODE_PORT_TYPES, Allocation, node_ports
from kubeskew.apiserver.registry.core.service.validation import is_external, needs_health_check
from kubeskew.apiserver.registry.core.service.warnings import service_warnings, status_warnings
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import UPDATE, Check, StrategyContext
from kubeskew.apiserver.registry.tables.cells import (
    NONE,
    UNKNOWN,
    Cells,
    Subject,
    joined,
    labels,
    load_balancers,
)

CLIENT_IP_SECONDS = 10800

_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_OF_ADDRESSES = ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


def default_service(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, type="ClusterIP", sessionAffinity="None")
    _affinity(spec)
    for port in each(spec, "ports"):
        fill(port, protocol="TCP", targetPort=port.get("targetPort") or port.get("port") or 0)
    if spec["type"] in _WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in {"ClusterIP", *_WITH_NODE_PORTS}:
        fill_null(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill_null(spec, allocateLoadBalancerNodePorts=True)
        _ingress_modes(obj, ctx)


def _affinity(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = struct(spec, "sessionAffinityConfig")
        fill_null(struct(config, "clientIP"), timeoutSeconds=CLIENT_IP_SECONDS)


def _ingress_modes(obj: Object, ctx: DefaultingContext) -> None:
    if not ctx.features.services.ip_modes:
        return
    for ingress in each((obj.get("status") or {}).get("loadBalancer") or {}, "ingress"):
        if ingress.get("ip"):
            fill_null(ingress, ipMode="VIP")


def patch_allocated(new: Object, old: Object) -> None:
    """A change that leaves out addresses, node ports or the health check's port keeps them; node ports go by
    the names of ports."""
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
    """Clients may know only one of `clusterIP` and `clusterIPs`: the other is completed."""
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
    """Fields that only the old type needed go, if they were left as they were (dropTypeDependentFields)."""
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


class ServiceStatusStrategy(SpecKeptStatus):
    """Services of other types have no status of a load balancer."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(validation.service_status_errors(new, old, ctx.features.services))

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return status_warnings(new) if ctx.features.services.status_warnings else []


class ServiceStrategy(BuiltIn):
    exclusive = True
    status = ServiceStatusStrategy
    update_checks = (Check.METADATA, *UPDATE)
    allow_create_on_update = True
    returns_deleted_object = True
    field_labels = ("spec.clusterIP", "spec.type")

    def labels_in(self, group: str, features: Features) -> tuple[str, ...]:
        return self.field_labels if features.services.field_labels else ()

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        relaxed = ctx.features.services.relaxed_names
        check = names.dns1123_label if relaxed else names.dns1035_label
        return object_meta.validate_object_meta(obj["metadata"], True, check)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        """A PUT of an absent one's status allocates neither addresses nor ports, as upstream's storage of the
        status (NewREST in storage/storage.go)."""
        obj["status"] = {"loadBalancer": {}}
        if ctx.subresource:
            return
        normalize_addresses(obj["spec"], {})
        if self._is_completed(obj, {}, ctx):
            Allocation(obj, ctx).create()

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        spec, before = new["spec"], old["spec"]
        patch_allocated(spec, before)
        normalize_addresses(spec, before)
        if self._is_completed(new, before, ctx):
            Allocation(new, ctx).update(before)
        drop_outdated(spec, before)
        if spec.get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}

    def _is_completed(self, obj: Object, before: Object, ctx: StrategyContext) -> bool:
        """False for ExternalName; else the address families are filled in. Raises 422, before all other
        rules."""
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            return False
        family = f"IPv{ipaddress.ip_network(ctx.service_ip_range).version}"
        if wrong := allocation.complete_families(spec, before, family, ctx.features.services):
            raise errors.invalid(KIND, obj["metadata"].get("name") or "", wrong)
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return validation.service_errors(obj, None, ctx.features.services)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        before, after = old["spec"], new["spec"]
        return [
            *validation.address_change_errors(after, before),
            *validation.class_errors(after, before),
            *validation.health_port_errors(after, before),
            *validation.service_errors(new, old, ctx.features.services),
        ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return service_warnings(obj, ctx.features.services)


def service_cells(subject: Subject) -> Cells:
    addresses = subject.items("spec", "clusterIPs")
    return {
        "Type": subject.text("spec", "type"),
        "Cluster-IP": addresses[0] if addresses else NONE,
        "External-IP": _external(subject),
        "Port(s)": joined([_port(port) for port in subject.items("spec", "ports")], NONE),
        "Selector": labels(subject.at("spec", "selector")),
    }


def _external(subject: Subject) -> str:
    addresses = subject.items("spec", "externalIPs")
    match subject.at("spec", "type"):
        case "ClusterIP" | "NodePort":
            return joined(addresses, NONE)
        case "LoadBalancer":
            return joined([*load_balancers(subject), *addresses], "<pending>")
        case "ExternalName":
            return subject.text("spec", "externalName")
        case _:
            return UNKNOWN


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"

"""Holds the rules of load balancers and of where the traffic of services goes.

Source: pkg/apis/core/validation/validation.go (validateService, validateServiceExternalTrafficPolicy,
ValidateLoadBalancerStatus), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.service_features import ServiceFeatures

_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"
_POLICIES = ("Cluster", "Local")
_IP_MODES = ("Proxy", "VIP")
_HEALTH_TEXT = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"


def is_external(spec: Object) -> bool:
    """Decides whether clients outside of the cluster can reach it."""
    kind = spec.get("type")
    return kind in {"NodePort", "LoadBalancer"} or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def balancer_errors(service: Object, old: Object | None, options: ServiceFeatures) -> Iterator[FieldError]:
    spec, balancer = service["spec"], service["spec"].get("type") == "LoadBalancer"
    yield from _range_errors(service, old, options, balancer=balancer)
    allocate = spec.get("allocateLoadBalancerNodePorts")
    if allocate is not None and not balancer:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCERS)
    if allocate is None and balancer:
        yield required("allocateLoadBalancerNodePorts")
    yield from class_errors(spec, None)


def _range_errors(
    service: Object, old: Object | None, options: ServiceFeatures, *, balancer: bool
) -> Iterator[FieldError]:
    """Checks source ranges, in the field or the annotation; blanks around them are part of the API."""
    spec, at = service["spec"], "spec.LoadBalancerSourceRanges"  # so upstream
    ranges = spec.get("loadBalancerSourceRanges") or []
    said = (service["metadata"].get("annotations") or {}).get(_RANGES_ANNOTATION)
    if not ranges and said is None:
        return
    strict = options.strict_addresses
    if ranges:
        if not balancer:
            yield forbidden(at, _ONLY_BALANCERS)
        before = ((old or {}).get("spec") or {}).get("loadBalancerSourceRanges") or ()
        known = [range_.strip() for range_ in before]
        for position, text in enumerate(ranges):
            yield from addresses.cidr_errors(index(at, position), text.strip(), strict=strict, known=known)
        return
    at = f"metadata.annotations[{_RANGES_ANNOTATION}]"
    if not balancer:
        yield forbidden(at, _ONLY_BALANCERS)
    had = (((old or {}).get("metadata") or {}).get("annotations") or {}).get(_RANGES_ANNOTATION)
    if said != had and said and said.strip():
        for text in said.split(","):
            yield from addresses.cidr_errors(at, text.strip(), strict=strict)


def class_errors(spec: Object, old: Object | None) -> Iterator[FieldError]:
    """Checks `loadBalancerClass`, which cannot change as long as there is a load balancer."""
    name, at = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    balancer = spec.get("type") == "LoadBalancer"
    was_balancer = old is not None and balancer and old.get("type") == "LoadBalancer"
    if was_balancer and (old or {}).get("loadBalancerClass") != name:
        yield invalid(at, name, "may not change once set")
    if name is None:
        return
    if balancer:
        yield from (invalid(at, name, text) for text in names.qualified_name(name))
    else:
        yield forbidden(at, _ONLY_BALANCERS)


def traffic_errors(spec: Object, options: ServiceFeatures) -> Iterator[FieldError]:
    policy, at = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    if not is_external(spec):
        if policy:
            yield invalid(at, policy, "may only be set for externally-accessible services")
    elif policy not in _POLICIES:
        yield not_supported(at, policy, _POLICIES) if policy else required(at)
    port, at = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if not needs_health_check(spec):
        if port:
            yield invalid(at, port, _HEALTH_TEXT)
    elif not port:
        yield required(at)
    else:
        yield from (invalid(at, port, text) for text in names.port(port))
    internal, at = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if internal is None and spec.get("type") in {"NodePort", "LoadBalancer", "ClusterIP"}:
        yield required(at)
    elif internal is not None and internal not in _POLICIES:
        yield not_supported(at, internal, _POLICIES)
    way = spec.get("trafficDistribution")
    if way is not None and way not in options.distributions:
        yield not_supported("spec.trafficDistribution", way, options.distributions)


def health_port_errors(new: Object, old: Object) -> Iterator[FieldError]:
    now, before = (spec.get("healthCheckNodePort") or 0 for spec in (new, old))
    if now != before and needs_health_check(new) and needs_health_check(old):
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def status_errors(new: Object, old: Object, options: ServiceFeatures) -> Iterator[FieldError]:
    """Checks the ingress points of a load balancer in its status."""
    ingresses = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    before = ((old.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    at = "status.loadBalancer.ingress"
    balancer = new["spec"].get("type") == "LoadBalancer"
    if ingresses and not balancer and not options.any_balancer_status:
        yield forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    known = [entry["ip"] for entry in before if entry.get("ip")]
    for position, ingress in enumerate(ingresses):
        yield from _ingress_errors(ingress, known, index(at, position), options)


def _ingress_errors(
    ingress: Object, known: list[str], path: str, options: ServiceFeatures
) -> Iterator[FieldError]:
    address, mode = ingress.get("ip") or "", ingress.get("ipMode")
    if address:
        strict = options.strict_addresses
        yield from addresses.ip_errors(child(path, "ip"), address, strict=strict, known=known)
    at = child(path, "ipMode")
    if mode is None:
        if address and options.ip_modes:
            yield required(at, "must be specified when `ip` is set")
    elif not address:
        yield forbidden(at, "may not be specified when `ip` is not set")
    elif mode not in _IP_MODES:
        yield not_supported(at, mode, _IP_MODES)
    host, at = ingress.get("hostname") or "", child(path, "hostname")
    if host:
        yield from (invalid(at, host, text) for text in names.dns1123_subdomain(host))
        if addresses.parse(host) is not None:
            yield invalid(at, host, "must be a DNS name, not an IP address")

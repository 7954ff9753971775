"""Service: the rules of addresses and their families, load balancers, ports, traffic.

Source: pkg/apis/core/validation/validation.go (validateService, ValidateServiceClusterIPsRelatedFields,
validateUpgradeDowngradeClusterIPs, validateUpgradeDowngradeIPFamilies, validateServiceExternalTrafficPolicy,
ValidateLoadBalancerStatus), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.shared.internal_values import service_port
from kubeskew.apiserver.registry.shared.podtemplate.probes import port_reference
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.service_features import ServiceFeatures

_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_IPS = "spec.clusterIPs"
_FAMILY_PATH = "spec.ipFamilies"
_POLICY = "spec.ipFamilyPolicy"
_ONCE = "may not change once set"
_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"
_TRAFFIC_POLICIES = ("Cluster", "Local")
_IP_MODES = ("Proxy", "VIP")
_HEALTH_TEXT = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_AFFINITY = 86400
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"


def cluster_ip_errors(spec: Object, before: Object, options: ServiceFeatures) -> Iterator[FieldError]:
    if spec.get("type") == "ExternalName":
        return
    single, several = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if single and not several:
        yield required(_IPS)
    elif single and several[0] != single:
        yield invalid(_IPS, several, "first value must match `clusterIP`")
    elif several and not single:
        yield invalid(_IPS, several, "must be empty when `clusterIP` is not specified")
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    repeated = repeats(families)
    for position, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(index(_FAMILY_PATH, position), family, _FAMILIES)
        if position in repeated:
            yield duplicate(index(_FAMILY_PATH, position), family)
    if policy is not None and policy not in _FAMILY_POLICIES:
        yield not_supported(_POLICY, policy, _FAMILY_POLICIES)
    wrong = list(_ip_errors(several, before.get("clusterIPs") or [], options))
    yield from wrong
    if len(several) > 2:
        yield invalid(_IPS, several, "may only hold up to 2 values")
    if not wrong:
        yield from _family_errors(several, families)


def _ip_errors(several: list[str], known: list[str], options: ServiceFeatures) -> Iterator[FieldError]:
    for position, address in enumerate(several):
        if position == 0 and address == "None":
            if len(several) > 1:
                yield invalid(_IPS, several, "'None' must be the first and only value")
            continue
        at = index(_IPS, position)
        yield from addresses.ip_errors(at, address, strict=options.strict_addresses, known=known)


def _family_errors(several: list[str], families: list[str]) -> Iterator[FieldError]:
    if len(several) > 1 and not addresses.is_dual_stack(several):
        yield invalid(_IPS, several, "may specify no more than one IP for each IP family")
    if several == ["None"]:
        return
    for position, (address, family) in enumerate(zip(several, families, strict=False)):
        if family in _FAMILIES and addresses.is_v6(address) != (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{position}]`"
            yield invalid(index(_IPS, position), address, text)


def address_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """The first address stays; `new` and `old` are specs."""
    if "ExternalName" in {new.get("type"), old.get("type")}:
        return
    headless = [spec.get("clusterIPs") == ["None"] for spec in (new, old)]
    if not all(headless):
        yield from _ip_changes(new, old)
    if not any(headless):
        yield from _family_changes(new, old)


def _ip_changes(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = new.get("clusterIPs") or [], old.get("clusterIPs") or []
    if len(after) == len(before):
        changed = [
            n for n, (address, other) in enumerate(zip(after, before, strict=True)) if address != other
        ]
        yield from (invalid(index(_IPS, position), after, _ONCE) for position in changed)
        return
    at = index(_IPS, 0)
    if before and not after:
        yield invalid(at, None, "primary clusterIP can not be unset")
    if before and after and before[0] != after[0]:
        yield invalid(at, after, _ONCE)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        yield invalid(_POLICY, new.get("ipFamilyPolicy"), text)


def _family_changes(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = new.get("ipFamilies") or [], old.get("ipFamilies") or []
    at = index(_FAMILY_PATH, 0)
    if len(after) == len(before):
        changed = [address for address, other in zip(after, before, strict=True) if address != other]
        yield from (invalid(at, after, _ONCE) for _ in changed)
        return
    if len(before) > len(after) and not new.get("clusterIPs"):
        yield invalid(at, after or None, "primary ipFamily can not be unset")
    if before and after and before[0] != after[0]:
        yield invalid(at, new.get("clusterIPs"), _ONCE)  # so upstream
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        yield invalid(_POLICY, new.get("ipFamilyPolicy"), text)


def is_external(spec: Object) -> bool:
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
    """Ranges stand in the field or the annotation; blanks around them are part of the API."""
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
    elif policy not in _TRAFFIC_POLICIES:
        yield not_supported(at, policy, _TRAFFIC_POLICIES) if policy else required(at)
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
    elif internal is not None and internal not in _TRAFFIC_POLICIES:
        yield not_supported(at, internal, _TRAFFIC_POLICIES)
    way = spec.get("trafficDistribution")
    if way is not None and way not in options.distributions:
        yield not_supported("spec.trafficDistribution", way, options.distributions)


def health_port_errors(new: Object, old: Object) -> Iterator[FieldError]:
    now, before = (spec.get("healthCheckNodePort") or 0 for spec in (new, old))
    if now != before and needs_health_check(new) and needs_health_check(old):
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def service_status_errors(new: Object, old: Object, options: ServiceFeatures) -> Iterator[FieldError]:
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


def is_headless(spec: Object) -> bool:
    return (spec.get("clusterIPs") or []) == ["None"]


def service_errors(service: Object, old: Object | None, options: ServiceFeatures) -> list[FieldError]:
    """`old`: the service before, whose addresses may stay as they are."""
    spec, before = service["spec"], (old or {}).get("spec") or {}
    kind, ports = spec.get("type") or "", spec.get("ports") or []
    errors = list(_topology(service["metadata"].get("annotations") or {}))
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _of_type(spec, kind)
    seen: set[str] = set()
    for position, port in enumerate(ports):
        errors += _port(port, index("spec.ports", position), seen, named=len(ports) > 1)
    if spec.get("selector"):
        errors += object_meta.validate_labels(spec["selector"], "spec.selector")
    errors += _affinity(spec)
    errors += cluster_ip_errors(spec, before, options)
    errors += _external_ips(spec, before, options)
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES) if kind else required("spec.type"))
    errors += _numbers(ports, kind)
    errors += balancer_errors(service, old, options)
    errors += traffic_errors(spec, options)
    return errors


def _topology(annotations: dict[str, str]) -> Iterator[FieldError]:
    hints, mode = annotations.get(_HINTS), annotations.get(_MODE)
    if hints is not None and mode is not None and hints != mode:
        text = f"must match annotations[{_HINTS}] when both are specified"
        yield invalid(f"metadata.annotations[{_MODE}]", mode, text)


def _of_type(spec: Object, kind: str) -> Iterator[FieldError]:
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind != "ExternalName":
        return
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden(child("spec", name), "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    else:
        yield from (invalid("spec.externalName", name, text) for text in names.dns1123_subdomain(name))


def _port(port: Object, path: str, seen: set[str], *, named: bool) -> Iterator[FieldError]:
    name = port.get("name") or ""
    if named and not name:
        yield required(child(path, "name"))
    elif name:
        yield from (invalid(child(path, "name"), name, text) for text in names.dns1123_label(name))
        if name in seen:
            yield duplicate(child(path, "name"), name)
        seen.add(name)
    number = port.get("port") or 0
    yield from (invalid(child(path, "port"), number, text) for text in names.port(number))
    protocol = port.get("protocol") or ""
    if protocol not in _PROTOCOLS:
        at = child(path, "protocol")
        yield not_supported(at, protocol, _PROTOCOLS) if protocol else required(at)
    yield from port_reference(port.get("targetPort"), child(path, "targetPort"))
    application = port.get("appProtocol")
    if application is not None:
        texts = names.qualified_name(application)
        yield from (invalid(child(path, "appProtocol"), application, text) for text in texts)


def _numbers(ports: list[Object], kind: str) -> Iterator[FieldError]:
    """Services without node ports may not name any, and no port is there twice."""
    if kind == "ClusterIP":
        for position, port in enumerate(ports):
            if port.get("nodePort"):
                at = child(index("spec.ports", position), "nodePort")
                yield forbidden(at, "may not be used when `type` is 'ClusterIP'")
    seen: set[tuple[str, int]] = set()
    for position, port in enumerate(ports):
        node = (port.get("protocol") or "", port.get("nodePort") or 0)
        if node in seen:
            yield duplicate(child(index("spec.ports", position), "nodePort"), node[1])
        if node[1]:
            seen.add(node)
    seen = set()
    for position, port in enumerate(ports):
        own = (port.get("protocol") or "", port.get("port") or 0)
        if own in seen:
            shown = service_port({"protocol": own[0], "port": own[1]})
            yield duplicate(index("spec.ports", position), shown)
        seen.add(own)


def _affinity(spec: Object) -> Iterator[FieldError]:
    value, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    at = "spec.sessionAffinityConfig"
    if value not in _AFFINITIES:
        where = "spec.sessionAffinity"
        yield not_supported(where, value, _AFFINITIES) if value else required(where)
    if value == "None" and config is not None:
        yield forbidden(at, "must not be set when session affinity is None")
    if value != "ClientIP":
        return
    for name in ("clientIP", "timeoutSeconds"):
        if config is None:
            break
        at, config = child(at, name), config.get(name)
    if config is None:
        yield required(at, "when session affinity type is ClientIP")
    elif not 0 < config <= _MAX_AFFINITY:
        yield invalid(at, config, f"must be greater than 0 and less than {_MAX_AFFINITY}")


def _external_ips(spec: Object, before: Object, options: ServiceFeatures) -> Iterator[FieldError]:
    known = before.get("externalIPs") or ()
    for position, address in enumerate(spec.get("externalIPs") or ()):
        at = index("spec.externalIPs", position)
        wrong = addresses.ip_errors(at, address, strict=options.strict_addresses, known=known)
        yield from wrong or addresses.endpoint_errors(at, address)

"""Holds the rules of services. Source: pkg/apis/core/validation/validation.go (validateService), 1.36."""

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
from kubeskew.apiserver.registry.core.service import addresses as service_addresses
from kubeskew.apiserver.registry.core.service import traffic
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.shared.internal_values import service_port
from kubeskew.apiserver.registry.shared.podtemplate.probes import port_reference
from kubeskew.apiserver.service_features import ServiceFeatures

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_AFFINITY = 86400
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"


def is_headless(spec: Object) -> bool:
    return (spec.get("clusterIPs") or []) == ["None"]


def service_errors(service: Object, old: Object | None, options: ServiceFeatures) -> list[FieldError]:
    """Checks a service; `old`: the service before, whose addresses may stay as they are."""
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
    errors += service_addresses.cluster_ip_errors(spec, before, options)
    errors += _external_ips(spec, before, options)
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES) if kind else required("spec.type"))
    errors += _numbers(ports, kind)
    errors += traffic.balancer_errors(service, old, options)
    errors += traffic.traffic_errors(spec, options)
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
    """Checks for node ports of services without any, and for duplicate ports."""
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

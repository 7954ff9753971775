"""Rules of services. Source: pkg/apis/core/validation/validation.go (ValidateService), 1.36."""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from apimachinery.validation import names, object_meta
from apiserver.registry.validation.pod_spec import is_ip
from apiserver.registry.validation.probes import port_reference

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_AFFINITY = 86400
_IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def name_errors(meta: Object, *, relaxed: bool) -> list[FieldError]:
    """A DNS-1035 label, or with gate RelaxedServiceNameValidation a DNS-1123 one."""
    check = names.dns1123_label if relaxed else names.dns1035_label
    name = meta.get("name") or ""
    return [invalid("metadata.name", name, text) for text in check(name)] if name else []


def service_errors(spec: Object) -> list[FieldError]:
    kind = spec.get("type") or ""
    errors: list[FieldError] = []
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and kind != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _of_type(spec, kind)
    errors += _ports(ports, kind, headless=spec.get("clusterIP") == "None")
    errors += object_meta.validate_labels(spec.get("selector") or {}, "spec.selector")
    errors += _affinity(spec)
    if not kind:
        errors.append(required("spec.type"))
    elif kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    errors += _cluster_ips(spec, kind)
    for position, address in enumerate(spec.get("externalIPs") or []):
        if not is_ip(address):
            errors.append(invalid(index("spec.externalIPs", position), address, _IP_TEXT))
    errors += _node_ports(ports, kind)
    return errors


def _of_type(spec: Object, kind: str) -> Iterator[FieldError]:
    if kind == "LoadBalancer" and spec.get("clusterIP") == "None":
        yield invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services")
    if kind == "NodePort" and spec.get("clusterIP") == "None":
        yield invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services")
    if kind == "ExternalName":
        name = (spec.get("externalName") or "").rstrip(".")
        if not name:
            yield required("spec.externalName")
        else:
            yield from (invalid("spec.externalName", name, text) for text in names.dns1123_subdomain(name))


def _ports(ports: list[Object], kind: str, *, headless: bool) -> Iterator[FieldError]:
    seen_names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    for position, port in enumerate(ports):
        at = index("spec.ports", position)
        yield from _port(port, at, seen_names, named=len(ports) > 1)
        protocol, number = port.get("protocol") or "", port.get("port") or 0
        if (protocol, number) in seen:
            yield duplicate(at, {"protocol": protocol, "port": number})
        seen.add((protocol, number))
        if kind == "ExternalName" and headless:
            yield forbidden(child(at, "port"), "may not be used when `type` is 'ExternalName'")


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
    if not protocol:
        yield required(child(path, "protocol"))
    elif protocol not in _PROTOCOLS:
        yield not_supported(child(path, "protocol"), protocol, _PROTOCOLS)
    yield from port_reference(port.get("targetPort"), child(path, "targetPort"))


def _node_ports(ports: list[Object], kind: str) -> Iterator[FieldError]:
    seen: set[tuple[str, int]] = set()
    for position, port in enumerate(ports):
        number = port.get("nodePort") or 0
        if not number:
            continue
        at = child(index("spec.ports", position), "nodePort")
        if kind == "ClusterIP":
            yield forbidden(at, "may not be used when `type` is 'ClusterIP'")
        elif not 30000 <= number <= 32767:
            yield invalid(
                at, number, "provided port is not in the valid range. The range of valid ports is 30000-32767"
            )
        taken = (port.get("protocol") or "", number)
        if taken in seen:
            yield duplicate(at, number)
        seen.add(taken)


def _affinity(spec: Object) -> Iterator[FieldError]:
    value = spec.get("sessionAffinity") or ""
    if not value:
        yield required("spec.sessionAffinity")
    elif value not in _AFFINITIES:
        yield not_supported("spec.sessionAffinity", value, _AFFINITIES)
    if value != "ClientIP":
        return
    client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = client.get("timeoutSeconds") or 0
    if not 0 < seconds <= _MAX_AFFINITY:
        at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield invalid(at, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY}")


def _cluster_ips(spec: Object, kind: str) -> Iterator[FieldError]:
    single, several = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if kind == "ExternalName":
        for name in ("clusterIP", "clusterIPs"):
            if spec.get(name):
                yield forbidden(child("spec", name), "may not be set when `type` is 'ExternalName'")
        return
    if several and several[0] != single:
        yield invalid("spec.clusterIPs", several, "first value must match `clusterIP`")
    for position, address in enumerate(several):
        if address != "None" and not is_ip(address):
            yield invalid(index("spec.clusterIPs", position), address, _IP_TEXT)

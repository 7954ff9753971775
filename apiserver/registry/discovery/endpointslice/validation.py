"""Holds the rules of endpoint slices.

Source: k8s.io/kubernetes/pkg/apis/discovery/validation/validation.go, 1.36; those of hints for nodes are from
memory.
"""

from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE, validate_labels
from kubeskew.apiserver.registry.shared import addresses, domains

_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100
_MAX_PORTS = 20000
_MAX_TOPOLOGY = 16
_MAX_HINTS = 8
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


def slice_errors(
    obj: Object, old: Object | None = None, *, local: bool = False, typed: bool = False
) -> Iterator[FieldError]:
    """Checks a slice; endpoints that did not change are skipped; `local`: addresses may be of
    this machine.
    """
    kind = obj.get("addressType") or ""
    if not kind:
        yield required("addressType")
    elif kind not in _TYPES:
        yield not_supported("addressType", kind, _TYPES)
    yield from _port_errors(obj.get("ports") or [])
    endpoints = obj.get("endpoints") or []
    if old is not None and endpoints == (old.get("endpoints") or []):
        return
    if len(endpoints) > _MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
        return
    for position, endpoint in enumerate(endpoints):
        yield from _endpoint(endpoint, kind, index("endpoints", position), local=local, typed=typed)


def update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("addressType") != old.get("addressType"):
        yield invalid("addressType", new.get("addressType") or "", IMMUTABLE)


def _port_errors(ports: list[Object]) -> Iterator[FieldError]:
    if len(ports) > _MAX_PORTS:
        yield too_many("ports", len(ports), _MAX_PORTS)
        return
    seen: set[str] = set()
    for position, port in enumerate(ports):
        at, name = index("ports", position), port.get("name") or ""
        if name:
            yield from (invalid(child(at, "name"), name, text) for text in names.dns1123_label(name))
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
        protocol = port.get("protocol")
        if protocol is None:
            yield required(child(at, "protocol"))
        elif protocol not in _PROTOCOLS:
            yield not_supported(child(at, "protocol"), protocol, _PROTOCOLS)
        spoken = port.get("appProtocol")
        if spoken is not None:
            at = child(at, "appProtocol")
            yield from (invalid(at, spoken, text) for text in names.qualified_name(spoken))


def _endpoint(endpoint: Object, kind: str, path: str, *, local: bool, typed: bool) -> Iterator[FieldError]:
    found, at = endpoint.get("addresses") or [], child(path, "addresses")
    if not found:
        yield required(at, "must contain at least 1 address")
    elif len(found) > _MAX_ADDRESSES:
        yield too_many(at, len(found), _MAX_ADDRESSES)
    for position, address in enumerate(found):
        yield from _address(address, kind, at, position, local=local, typed=typed)
    node = endpoint.get("nodeName")
    if node is not None:
        at = child(path, "nodeName")
        yield from (invalid(at, node, text) for text in names.dns1123_subdomain(node))
    topology, at = endpoint.get("deprecatedTopology") or {}, child(path, "deprecatedTopology")
    if len(topology) > _MAX_TOPOLOGY:
        yield too_many(at, len(topology), _MAX_TOPOLOGY)
    yield from validate_labels(topology, at)
    host = endpoint.get("hostname")
    if host is not None:
        yield from (invalid(child(path, "hostname"), host, text) for text in names.dns1123_label(host))
    hints, at = endpoint.get("hints") or {}, child(path, "hints")
    yield from _hints(hints.get("forZones") or [], child(at, "forZones"), names.label_value)
    yield from _hints(hints.get("forNodes") or [], child(at, "forNodes"), names.dns1123_subdomain)


def _address(
    address: str, kind: str, every: str, position: int, *, local: bool, typed: bool
) -> Iterator[FieldError]:
    """Checks one address; `every`: the path of all; `typed`: errors are those of addresses of any version,
    and one of the wrong version is an error of all."""
    path = index(every, position)
    if kind == "FQDN":
        yield from domains.domain_name_errors(path, address)
    if kind not in {"IPv4", "IPv6"}:
        return
    parsed = addresses.parse(address)
    if typed and parsed is None:
        yield invalid(path, address, addresses.IP_TEXT)
        return
    if typed and parsed is not None and f"IPv{parsed.version}" != kind:
        yield invalid(every, address, f"must be an {kind} address")
    elif parsed is None or f"IPv{parsed.version}" != kind:
        yield invalid(path, address, f"must be a valid {kind} address")
    if not local:
        yield from addresses.endpoint_errors(path, address)


def _hints(hints: list[Object], path: str, check: Callable[[str], list[str]]) -> Iterator[FieldError]:
    if len(hints) > _MAX_HINTS:
        yield too_many(path, len(hints), _MAX_HINTS)
        return
    seen: set[str] = set()
    for position, hint in enumerate(hints):
        at, name = child(index(path, position), "name"), hint.get("name") or ""
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
        yield from (invalid(at, name, text) for text in check(name))


def address_warnings(obj: Object) -> Iterator[str]:
    """Warns of addresses in unusual forms, except in slices that our own controllers wrote."""
    if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY) in _CONTROLLERS:
        return
    for position, endpoint in enumerate(obj.get("endpoints") or []):
        at = child(index("endpoints", position), "addresses")
        for number, address in enumerate(endpoint.get("addresses") or []):
            yield from addresses.ip_warnings(index(at, number), address)

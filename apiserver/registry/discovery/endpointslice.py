"""EndpointSlice: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/discovery/v1/defaults.go, k8s.io/kubernetes/pkg/apis/discovery/validation/validation.go,
k8s.io/kubernetes/pkg/registry/discovery/endpointslice/strategy.go, 1.36.
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
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill_null
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared import addresses, formats
from kubeskew.apiserver.registry.tables.cells import UNSET, Cells, Subject, shortened
from kubeskew.apiserver.user import SERVER

_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100
_MAX_PORTS = 20000
_MAX_TOPOLOGY = 16
_MAX_HINTS = 8
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_HOST = "kubernetes.io/hostname"


def default_endpoint_slice(obj: Object, _: DefaultingContext) -> None:
    for port in each(obj, "ports"):
        fill_null(port, name="", protocol="TCP")


def slice_errors(
    obj: Object, old: Object | None = None, *, local: bool = False, typed: bool = False
) -> Iterator[FieldError]:
    """Endpoints that did not change are skipped; `local`: addresses may be of this machine."""
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
    if len(hints.get("forZones") or []) > _MAX_HINTS:  # then those of nodes are not looked at
        return
    yield from _hints(hints.get("forNodes") or [], child(at, "forNodes"), names.dns1123_subdomain)


def _address(
    address: str, kind: str, every: str, position: int, *, local: bool, typed: bool
) -> Iterator[FieldError]:
    """`every`: the path of all; `typed`: errors are those of addresses of any version, and one of the wrong
    version is an error of all."""
    path = index(every, position)
    if kind == "FQDN":
        yield from formats.domain_name_errors(path, address)
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


def _drop_node_hints(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Hints of nodes have no gate among their types' tags: upstream's strategy drops them by itself."""
    if ctx.features.services.node_hints or any(_node_hints(old)):
        return
    for hints in _node_hints(new):
        del hints["forNodes"]


def _node_hints(obj: Object) -> Iterator[Object]:
    for endpoint in obj.get("endpoints") or []:
        hints = endpoint.get("hints") or {}
        if hints.get("forNodes") is not None:
            yield hints


class EndpointSliceStrategy(HandwrittenBuiltIn, WithGeneration):
    """Labels count as content does; v1 has no topology to write.

    The server itself listens on this machine, and may say so: nobody else may name a loopback address.
    """

    update_checks = (Check.METADATA, Check.OWN_RULES, Check.CHANGE)
    counts_dropped_fields = True

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _drop_node_hints(obj, {}, ctx)
        _drop_topology(obj, {})

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        _drop_node_hints(new, old, ctx)
        if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        if (new.get("endpoints") or []) != (old.get("endpoints") or []):
            _drop_topology(new, old)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(
            slice_errors(obj, local=ctx.user.name == SERVER.name, typed=ctx.features.services.typed_endpoints)
        )

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        local = ctx.user.name == SERVER.name
        return list(slice_errors(new, old, local=local, typed=ctx.features.services.typed_endpoints))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(update_errors(new, old))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        found = self.update_warnings(obj, {}, ctx)
        if obj.get("addressType") == "FQDN":
            found.insert(0, "spec.addressType: FQDN endpoints are deprecated")
        return found

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return list(address_warnings(new)) if ctx.features.services.endpoint_warnings else []


def _drop_topology(new: Object, old: Object) -> None:
    """Drops the topology of v1beta1, which v1 took over; a node that it named stays in its own field."""
    known = {
        (endpoint.get("deprecatedTopology") or {}).get(_HOST) for endpoint in old.get("endpoints") or []
    } - {
        None,
        "",
    }
    for endpoint in new.get("endpoints") or []:
        node = (endpoint.pop("deprecatedTopology", None) or {}).get(_HOST)
        if node in known and endpoint.get("nodeName") is None:
            endpoint["nodeName"] = node


def endpoint_slice_cells(subject: Subject) -> Cells:
    addresses = [
        address for endpoint in subject.items("endpoints") for address in endpoint.get("addresses") or ()
    ]
    return {
        "AddressType": subject.text("addressType"),
        "Ports": shortened([_port_or_name(port) for port in subject.items("ports")]) or UNSET,
        "Endpoints": shortened(addresses) or UNSET,
    }


def _port_or_name(port: Object) -> str:
    number, name = port.get("port"), port.get("name")
    if number is not None:
        return str(number)
    return "*" if name is None else str(name)

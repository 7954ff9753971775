"""Endpoints: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go (ValidateEndpoints),
pkg/registry/core/endpoint/strategy.go, 1.36.
"""

from collections.abc import Collection, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.service.warnings import endpoint_warnings
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate
from kubeskew.apiserver.registry.generic.strategy import UPDATE, Check, StrategyContext
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, shortened
from kubeskew.apiserver.user import SERVER

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_FIELDS = ("addresses", "notReadyAddresses")


def default_endpoints(obj: Object, _: DefaultingContext) -> None:
    for subset in each(obj, "subsets"):
        for port in each(subset, "ports"):
            fill(port, protocol="TCP")


def endpoints_errors(
    new: Object, old: Object | None = None, *, strict: bool, local: bool = False
) -> Iterator[FieldError]:
    """`strict`: addresses must be written the usual way, unless they were there before.

    `local`: the server itself may name an address of this machine.
    """
    subsets = new.get("subsets") or []
    if old is not None and subsets == (old.get("subsets") or []):
        return
    known = {
        address.get("ip") or ""
        for subset in (old or {}).get("subsets") or ()
        for field in _FIELDS
        for address in subset.get(field) or ()
    }
    for position, subset in enumerate(subsets):
        yield from _subset(subset, index("subsets", position), known, strict=strict, local=local)


def _subset(
    subset: Object, path: str, known: Collection[str], *, strict: bool, local: bool
) -> Iterator[FieldError]:
    if not any(subset.get(field) for field in _FIELDS):
        yield required(path, "must specify `addresses` or `notReadyAddresses`")
    for field in _FIELDS:
        for position, address in enumerate(subset.get(field) or []):
            at = index(child(path, field), position)
            yield from _address(address, at, known, strict=strict)
            if not local:
                yield from addresses.endpoint_errors(child(at, "ip"), address.get("ip") or "")
    ports = subset.get("ports") or []
    for position, port in enumerate(ports):
        at = index(child(path, "ports"), position)
        if not local or port.get("port"):  # a server that runs inside a test has no port
            yield from _port(port, at, named=len(ports) > 1)


def _address(address: Object, path: str, known: Collection[str], *, strict: bool) -> Iterator[FieldError]:
    ip, host, node = address.get("ip") or "", address.get("hostname") or "", address.get("nodeName")
    yield from addresses.ip_errors(child(path, "ip"), ip, strict=strict, known=known)
    if host:
        yield from (invalid(child(path, "hostname"), host, text) for text in names.dns1123_label(host))
    if node is not None:
        yield from (invalid(child(path, "nodeName"), node, text) for text in names.dns1123_subdomain(node))


def _port(port: Object, path: str, *, named: bool) -> Iterator[FieldError]:
    name, number, protocol = port.get("name") or "", port.get("port") or 0, port.get("protocol") or ""
    if named and not name:
        yield required(child(path, "name"))
    elif name:
        yield from (invalid(child(path, "name"), name, text) for text in names.dns1123_label(name))
    yield from (invalid(child(path, "port"), number, text) for text in names.port(number))
    if not protocol:
        yield required(child(path, "protocol"))
    elif protocol not in _PROTOCOLS:
        yield not_supported(child(path, "protocol"), protocol, _PROTOCOLS)
    wire = port.get("appProtocol")
    if wire is not None:
        yield from (invalid(child(path, "appProtocol"), wire, text) for text in names.qualified_name(wire))


class EndpointsStrategy(CreatedByUpdate):
    update_checks = (Check.METADATA, *UPDATE)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, new: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        strict, local = ctx.features.strict_addresses, ctx.user.name == SERVER.name
        return list(endpoints_errors(new, old, strict=strict, local=local))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return endpoint_warnings(obj) if ctx.features.services.endpoint_warnings else []


def endpoints_cells(subject: Subject) -> Cells:
    subsets = subject.items("subsets")
    found = [
        _host_port(address.get("ip", ""), port)
        for subset in subsets
        for port in subset.get("ports") or [None]
        for address in subset.get("addresses") or ()
    ]
    return {"Endpoints": shortened(found) if subsets else NONE}


def _host_port(address: str, port: Object | None) -> str:
    if port is None:
        return address
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port.get('port', 0)}"

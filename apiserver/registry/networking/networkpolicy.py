"""NetworkPolicy: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/networking/v1/defaults.go, pkg/apis/networking/validation/validation.go,
pkg/registry/networking/networkpolicy/strategy.go, 1.36.
"""

from collections.abc import Collection, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import ValidatedAsNew, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, Checks, StrategyContext
from kubeskew.apiserver.registry.shared import addresses, selectors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, selector

_PROTOCOLS = ("TCP", "UDP", "SCTP")

_TYPES = ("Ingress", "Egress")

_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def default_network_policy(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    for rule in each(spec, "ingress", "egress"):
        for port in each(rule, "ports"):
            fill_null(port, protocol="TCP")
    fill(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def policy_errors(spec: Object, *, strict: bool, known: Collection[str] = ()) -> Iterator[FieldError]:
    """`known`: ranges that were there before and are taken as they are."""
    yield from selectors.selector_errors(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for position, rule in enumerate(spec.get(direction) or []):
            at = index(child("spec", direction), position)
            for number, port in enumerate(rule.get("ports") or []):
                yield from _port(port, index(child(at, "ports"), number))
            for number, peer in enumerate(rule.get(peers) or []):
                yield from _peer(peer, index(child(at, peers), number), strict=strict, known=known)
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for position, name in enumerate(types):
        if name not in _TYPES:
            yield not_supported(index("spec.policyTypes", position), name, _TYPES)


def _port(port: Object, path: str) -> Iterator[FieldError]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(child(path, "protocol"), protocol, _PROTOCOLS)
    at = child(path, "endPort")
    if number is None:
        if end is not None:
            yield invalid(at, end, "may not be specified when `port` is not specified")
    elif isinstance(number, int):
        yield from (invalid(child(path, "port"), number, text) for text in names.port(number))
        if end is not None and end < number:
            yield invalid(at, number, "must be greater than or equal to `port`")
        if end is not None:
            yield from (invalid(at, end, text) for text in names.port(end))
    else:
        if end is not None:
            yield invalid(at, end, "may not be specified when `port` is non-numeric")
        yield from (invalid(child(path, "port"), number, text) for text in names.port_name(number))


def _peer(peer: Object, path: str, *, strict: bool, known: Collection[str]) -> Iterator[FieldError]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    for name in given:
        if name == "ipBlock":
            yield from _block(peer[name], child(path, name), strict=strict, known=known)
        else:
            yield from selectors.selector_errors(peer[name], child(path, name))
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: Object, path: str, *, strict: bool, known: Collection[str]) -> Iterator[FieldError]:
    cidr = block.get("cidr") or ""
    if not cidr:
        yield required(child(path, "cidr"))
        return
    yield from addresses.cidr_errors(child(path, "cidr"), cidr, strict=strict, known=known)
    whole = addresses.network(cidr)
    if whole is None:
        return
    for position, text in enumerate(block.get("except") or []):
        at = index(child(path, "except"), position)
        yield from addresses.cidr_errors(at, text, strict=strict, known=known)
        part = addresses.network(text)
        if part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            yield invalid(at, text, "must be a strict subset of `cidr`")


def ranges(spec: Object) -> list[str]:
    return [text for _, text in _ranges(spec)]


def _ranges(spec: Object) -> Iterator[tuple[str, str]]:
    for direction, peers in _DIRECTIONS:
        for position, rule in enumerate(spec.get(direction) or []):
            for number, peer in enumerate(rule.get(peers) or []):
                block = peer.get("ipBlock")
                if block is None:
                    continue
                at = child(index(child(index(child("spec", direction), position), peers), number), "ipBlock")
                yield child(at, "cidr"), block.get("cidr") or ""
                for excluded, text in enumerate(block.get("except") or []):
                    yield index(child(at, "except"), excluded), text


def policy_warnings(spec: Object) -> list[str]:
    return [text for at, value in _ranges(spec) for text in addresses.cidr_warnings(at, value)]


class NetworkPolicyStrategy(ValidatedAsNew, WithGeneration):
    counts_empty_lists = True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        strict = ctx.features.strict_addresses
        return list(policy_errors(obj.get("spec") or {}, strict=strict))

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        """Since 1.36 only the change is checked, by the same rules as a new policy."""
        if ctx.resource.storage_resource in ctx.features.requests.checked_once:
            return (Check.METADATA_CHANGE, Check.CHANGE)
        return super().update_checks_for(ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        strict, known = ctx.features.strict_addresses, ranges(old.get("spec") or {})
        return list(policy_errors(new.get("spec") or {}, strict=strict, known=known))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return policy_warnings(obj.get("spec") or {})


def network_policy_cells(subject: Subject) -> Cells:
    return {"Pod-Selector": selector(subject.at("spec", "podSelector") or {})}

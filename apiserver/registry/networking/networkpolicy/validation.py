"""Checks NetworkPolicies.

Source: pkg/apis/networking/validation/validation.go, 1.36.
"""

from collections.abc import Collection, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import addresses, selectors

_PROTOCOLS = ("TCP", "UDP", "SCTP")

_TYPES = ("Ingress", "Egress")

_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def policy_errors(spec: Object, *, strict: bool, known: Collection[str] = ()) -> Iterator[FieldError]:
    """Checks a NetworkPolicy's spec; `known`: ranges that were there before and are taken as they are."""
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
    """Returns every range that a policy names."""
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
                for each, text in enumerate(block.get("except") or []):
                    yield index(child(at, "except"), each), text


def policy_warnings(spec: Object) -> list[str]:
    return [text for at, value in _ranges(spec) for text in addresses.cidr_warnings(at, value)]

"""Rules of network policies, addresses of services and their ranges.

Source: k8s.io/kubernetes/pkg/apis/networking/validation/validation.go, 1.36.
"""

from collections.abc import Collection, Iterator

from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.validation import names
from kubeskew.apimachinery.validation.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.validation import addresses, selectors
from kubeskew.apiserver.registry.validation.ingresses import segment_errors

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def policy_errors(spec: Object, *, strict: bool, known: Collection[str] = ()) -> Iterator[FieldError]:
    """A NetworkPolicy's spec; `known`: ranges that were there before and are taken as they are."""
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
            yield invalid(at, end, "must be greater than or equal to `port`")
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
    """Every range that a policy names."""
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


def address_name_texts(name: str) -> list[str]:
    """The name of an IPAddress: an address as Go writes it."""
    faults = addresses.ip_errors("", name, strict=True)
    shown = addresses.parse(name)
    if not faults and str(shown) != name:
        return [f'must be in canonical form ("{shown}")']
    return [fault.detail for fault in faults]


def address_errors(spec: Object) -> Iterator[FieldError]:
    """The spec of an IPAddress: whose it is."""
    parent, path = spec.get("parentRef"), "spec.parentRef"
    if parent is None:
        yield required(path)
        return
    group, namespace = parent.get("group") or "", parent.get("namespace") or ""
    if group:
        yield from (invalid(child(path, "group"), group, text) for text in names.dns1123_subdomain(group))
    yield from segment_errors(parent, path, "resource", "name")
    at = child(path, "namespace")
    yield from (invalid(at, namespace, text) for text in names.path_segment(namespace))


def address_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((one.get("spec") or {}).get("parentRef") for one in (new, old))
    if after != before:
        yield invalid("spec.parentRef", after, IMMUTABLE)


def service_range_errors(spec: Object) -> Iterator[FieldError]:
    """The spec of a ServiceCIDR: one range, or one of each family."""
    cidrs, path = spec.get("cidrs") or [], "spec.cidrs"
    if not cidrs:
        yield required(path, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        yield invalid(path, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for position, text in enumerate(cidrs):
        yield from _canonical(text, index(path, position))
    families = [network.version for text in cidrs if (network := addresses.network(text)) is not None]
    if len(families) == 2 and families[0] == families[1]:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(path, cidrs, text)


def _canonical(text: str, path: str) -> Iterator[FieldError]:
    faults = addresses.cidr_errors(path, text, strict=True)
    yield from faults
    shown = str(addresses.network(text))
    if not faults and shown != text:
        yield invalid(path, text, f'must be in canonical form ("{shown}")')


def service_range_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((one.get("spec") or {}).get("cidrs") or [] for one in (new, old))
    path = "spec.cidrs"
    if len(after) == len(before):
        for position, text in enumerate(after):
            if text != before[position]:
                yield invalid(index(path, position), text, IMMUTABLE)
    elif (len(before), len(after)) == (1, 2):
        if after[0] != before[0]:
            yield invalid(index(path, 0), after[0], IMMUTABLE)
        yield from service_range_errors(new["spec"])
    else:
        yield invalid(path, after or None, IMMUTABLE)

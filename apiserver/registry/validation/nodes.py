"""Rules of nodes. Source: pkg/apis/core/validation/validation.go (ValidateNode, ValidateNodeUpdate), 1.36."""

import ipaddress
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
from apimachinery.validation import names
from apiserver.registry.validation import amounts
from apiserver.registry.validation.selectors import TAINT_EFFECTS

CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def complete_cidrs(spec: Object, old: Object | None = None) -> None:
    """`podCIDR` is the first of `podCIDRs`, as conversion keeps it upstream."""
    single = spec.get("podCIDR")
    if single and (not spec.get("podCIDRs") or (old or {}).get("podCIDR") != single):
        spec["podCIDRs"] = [single, *(spec.get("podCIDRs") or [])[1:]]
    elif not single and spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]


def node_errors(node: Object) -> list[FieldError]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    # Upstream gives taints the path of metadata.
    errors = list(taint_errors(spec.get("taints") or [], "metadata.taints"))
    errors += _amounts(status)
    for position, cidr in enumerate(spec.get("podCIDRs") or []):
        if not is_cidr(cidr):
            errors.append(invalid(index("spec.podCIDRs", position), cidr, CIDR_TEXT))
    return errors


def _amounts(status: Object) -> Iterator[FieldError]:
    for field in ("capacity", "allocatable"):
        for name, text in sorted((status.get(field) or {}).items()):
            at = f"status.{field}[{name}]"
            yield from amounts.name_errors(name, at)
            yield from amounts.amount_errors(name, text, at)


def node_update_errors(new: Object, old: Object) -> list[FieldError]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = list(taint_errors(spec.get("taints") or [], "metadata.taints"))
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", text))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", text))
    return errors


def taint_errors(taints: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        at = index(path, position)
        name, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        texts = names.label_value(value)
        if texts:
            yield invalid(child(at, "value"), value, ";".join(texts))
        if not effect:
            yield required(child(at, "effect"))
        elif effect not in TAINT_EFFECTS:
            yield not_supported(child(at, "effect"), effect, TAINT_EFFECTS)
        if (name, effect) in seen:
            yield duplicate(at, taint)
        seen.add((name, effect))


def is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text

"""Workloads and PodGroups have these rules in common, which are declared with the types.

Source: the markers of k8s.io/api/scheduling/v1alpha2, 1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

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
from kubeskew.apiserver.registry.shared import declared

MAX_TEMPLATES = 8
MAX_CLAIMS = 4
NULL = object()
_MAX_KEYS = 1
_MOST_URGENT, _LEAST_URGENT = 1_000_000_000, -(2**31)
_MODES = ("Pod", "PodGroup")
_CLAIM_ORDER = ("name", "resourceClaimName", "resourceClaimTemplateName")


def group_errors(group: Object, path: str) -> Iterator[FieldError]:
    """`group` is a PodGroup's spec or a template of one."""
    yield from policy_errors(group.get("schedulingPolicy") or {}, child(path, "schedulingPolicy"))
    topology = (group.get("schedulingConstraints") or {}).get("topology") or []
    yield from _topology(topology, child(path, "schedulingConstraints.topology"))
    yield from claim_errors(group.get("resourceClaims") or [], child(path, "resourceClaims"))
    mode, at = group.get("disruptionMode"), child(path, "disruptionMode")
    if isinstance(mode, str) and mode not in _MODES:
        yield not_supported(at, mode, _MODES)
    if group.get("priorityClassName"):
        yield from declared.long_name(group["priorityClassName"], child(path, "priorityClassName"))
    priority, at = group.get("priority"), child(path, "priority")
    if priority is not None:
        yield from declared.at_most(priority, _MOST_URGENT, at)
        yield from declared.at_least(priority, _LEAST_URGENT, at)


def policy_errors(policy: Object, path: str) -> Iterator[FieldError]:
    yield from _one_of(policy, ("basic", "gang"), path)
    if policy.get("gang") is not None:
        least, at = policy["gang"].get("minCount") or 0, child(path, "gang.minCount")
        if least:
            yield from declared.at_least(least, 1, at)
        else:
            yield required(at)


def claim_errors(claims: list[Object], path: str) -> Iterator[FieldError]:
    if len(claims) > MAX_CLAIMS:
        yield too_many(path, len(claims), MAX_CLAIMS)
        return
    yield from repeats(claims, path, dict.fromkeys(_CLAIM_ORDER))
    for position, claim in enumerate(claims):
        at = index(path, position)
        yield from _one_of(claim, _CLAIM_ORDER[1:], at)
        yield from declared.needed(claim, "name", at, declared.short_name)
        for name in _CLAIM_ORDER[1:]:
            if claim.get(name) is not None:
                yield from declared.long_name(claim[name], child(at, name))


def repeats(items: list[Object], path: str, zeros: Mapping[str, Any]) -> Iterator[FieldError]:
    """An item whose name an earlier one has is reported whole; `zeros` has the fields in Go's order, with
    what is written of one that is absent: None if it is nothing, NULL for null."""
    seen = set()
    for position, item in enumerate(items):
        name = item.get("name") or ""
        if name in seen:
            shown = {field: zero if item.get(field) is None else item[field] for field, zero in zeros.items()}
            kept = {field: value for field, value in shown.items() if value is not None}
            yield duplicate(
                index(path, position),
                {field: None if value is NULL else value for field, value in kept.items()},
            )
        seen.add(name)


def _topology(constraints: list[Object], path: str) -> Iterator[FieldError]:
    if len(constraints) > _MAX_KEYS:
        yield too_many(path, len(constraints), _MAX_KEYS)
        return
    for position, constraint in enumerate(constraints):
        yield from declared.needed(constraint, "key", index(path, position), _label_key)


def _label_key(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.qualified_name(value))


def _one_of(obj: Object, members: tuple[str, ...], path: str) -> Iterator[FieldError]:
    listed = ", ".join(f"`{name}`" for name in members)
    given = [f"`{name}`" for name in members if obj.get(name) is not None]
    if not given:
        yield invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")

"""Rules of resource amounts: names, quantities, requests against limits.

Source: pkg/apis/core/validation/validation.go (ValidateResourceRequirements), 1.36.
"""

from collections.abc import Iterator
from typing import Any

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, duplicate, index, invalid, key, not_found, required
from apimachinery.quantity import Quantity
from apimachinery.validation import names

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_STANDARD = frozenset(
    {
        *_COMPUTE,
        "storage",
        "requests.storage",
        *(f"requests.{name}" for name in _COMPUTE),
        *(f"limits.{name}" for name in _COMPUTE),
        *_COUNTED,
    }
)
_CONTAINER = _OVERCOMMIT = frozenset(_COMPUTE)
NOT_NEGATIVE = "must be greater than or equal to 0"
NOT_INTEGER = "must be an integer"
HUGEPAGES = "hugepages-"


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """`domain/name`, not of kubernetes.io and usable after `requests.` (IsExtendedResourceName)."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def name_errors(name: str, path: str) -> Iterator[FieldError]:
    """The name of a resource anywhere: qualified; without a prefix it must be a standard one."""
    texts = names.qualified_name(name)
    yield from (invalid(path, name, text) for text in texts)
    if not texts and "/" not in name and name not in _STANDARD and not name.startswith(HUGEPAGES):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def container_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """The name of a resource of a container."""
    yield from name_errors(name, path)
    if "/" not in name and name not in _CONTAINER and not name.startswith(HUGEPAGES):
        yield invalid(path, name, "must be a standard resource for containers")
    elif "/" in name and not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def amount_errors(name: str, text: str, path: str) -> Iterator[FieldError]:
    """An amount: not negative, whole where fractions make no sense."""
    amount = Quantity.parse(text)
    if amount < Quantity.parse("0"):
        yield invalid(path, text, NOT_NEGATIVE)
    whole = name == "pods" or is_extended(name) or name.startswith("count/")
    if whole and amount.milli_value() % 1000:
        yield invalid(path, text, NOT_INTEGER)


def requirement_errors(resources: Object, claim_names: set[str], path: str) -> Iterator[FieldError]:
    """`resources` of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        at = child(path, field)
        for name in sorted(amounts):
            yield from container_name_errors(name, at)
            yield from amount_errors(name, amounts[name], key(at, name))
            if field == "requests":
                yield from _against_limit(name, amounts[name], limits, at)
    yield from _claim_errors(resources.get("claims") or [], claim_names, child(path, "claims"))


def _against_limit(name: str, request: str, limits: dict[str, str], path: str) -> Iterator[FieldError]:
    limit = limits.get(name)
    fixed = name not in _OVERCOMMIT and (is_extended(name) or name.startswith(HUGEPAGES))
    if limit is None:
        if fixed and is_extended(name):
            at = key(child(path.rpartition(".")[0], "limits"), name)
            yield required(at, "Limit must be set for non overcommitable resources")
        return
    asked, most = Quantity.parse(request), Quantity.parse(limit)
    if fixed and asked != most:
        yield invalid(path, request, f"must be equal to {name} limit of {limit}")
    elif asked > most:
        yield invalid(path, request, f"must be less than or equal to {name} limit of {limit}")


def _claim_errors(claims: list[Any], claim_names: set[str], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for position, claim in enumerate(claims):
        at = index(path, position)
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(child(at, "name"))
            continue
        if (name, request) in seen:
            yield duplicate(at, f"{name}/{request}" if request else name)
        seen.add((name, request))
        if name not in claim_names:
            yield not_found(at, name)

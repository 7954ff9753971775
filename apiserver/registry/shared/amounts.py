"""Amounts of resources follow these rules: names, quantities, requests against limits.

Source: pkg/apis/core/validation/validation.go (ValidateContainerResourceRequirements), 1.36. Where upstream
walks a map the names come sorted.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ErrorType,
    FieldError,
    Stringer,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_extended_resource, is_native
from kubeskew.apimachinery.quantity import Quantity

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
_CONTAINER = frozenset(_COMPUTE)
ZERO = Quantity.parse("0")
_SHARED = frozenset({"cpu", "memory"})
_FRACTIONAL = frozenset(_COMPUTE)
NOT_NEGATIVE = "must be greater than or equal to 0"
NOT_INTEGER = "must be an integer"
HUGEPAGES = "hugepages-"
QUOTA_PAGES = (HUGEPAGES, f"requests.{HUGEPAGES}")  # as quotas name them
NameCheck = Callable[[str, str], Iterator[FieldError]]


def name_errors(name: str, path: str) -> Iterator[FieldError]:
    texts = names.qualified_name(name)
    yield from (invalid(path, Stringer(name), text) for text in texts)
    if not texts and "/" not in name and name not in _STANDARD and not name.startswith(QUOTA_PAGES):
        yield invalid(path, Stringer(name), "must be a standard resource type or fully qualified")


def container_name_errors(name: str, path: str) -> Iterator[FieldError]:
    yield from name_errors(name, path)
    if "/" not in name and name not in _CONTAINER and not name.startswith(HUGEPAGES):
        yield invalid(path, Stringer(name), "must be a standard resource for containers")
    elif "/" in name and not is_native(name) and not is_extended_resource(name):
        yield invalid(path, Stringer(name), "doesn't follow extended resource name standard")


def amount_errors(name: str, text: str, path: str) -> list[FieldError]:
    """Amounts are not negative, and whole where fractions make no sense."""
    errors = []
    if text[:1] == "-" and Quantity.parse(text) < ZERO:
        errors.append(invalid(path, text, NOT_NEGATIVE))
    if name not in _FRACTIONAL and is_counted(name) and Quantity.parse(text).milli_value() % 1000:
        errors.append(invalid(path, text, NOT_INTEGER))
    return errors


def is_counted(name: str) -> bool:
    return name in _COUNTED or is_extended_resource(name) or name.startswith("count/")


def is_overcommitable(name: str) -> bool:
    return is_native(name) and not name.startswith(HUGEPAGES)


def requirement_errors(
    resources: Object,
    claim_names: Collection[str],
    path: str,
    check_name: NameCheck = container_name_errors,
) -> list[FieldError]:
    """`resources` are those of a container, or of a pod with the check of its names."""
    errors: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    at = child(path, "limits")
    for name in sorted(limits):
        errors += _one(name, limits[name], key(at, name), check_name)
        if name.startswith(HUGEPAGES):
            errors += _page_errors(name, limits[name], key(at, name))
    at = child(path, "requests")
    for name in sorted(requests):
        errors += _one(name, requests[name], key(at, name), check_name)
        errors += _against_limit(name, requests[name], limits, path)
        if name.startswith(HUGEPAGES):
            errors += _page_errors(name, requests[name], key(at, name))
    named = {*limits, *requests}
    if not named & _SHARED and any(name.startswith(HUGEPAGES) for name in named):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if resources.get("claims"):
        errors += _claim_errors(resources["claims"], claim_names, child(path, "claims"))
    return errors


def _one(name: str, text: str, path: str, check_name: NameCheck) -> Iterator[FieldError]:
    if name not in _CONTAINER:
        yield from check_name(name, path)
    yield from amount_errors(name, text, path)


def _page_errors(name: str, text: str, path: str) -> Iterator[FieldError]:
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES))
    except ValueError:
        size = ZERO
    whole = size > ZERO and size.milli_value() % 1000 == 0
    if not whole or Quantity.parse(text).value() % size.value():
        yield invalid(path, text, f"{text} is not positive integer multiple of {name}")


def _against_limit(name: str, request: str, limits: dict[str, str], path: str) -> Iterator[FieldError]:
    limit = limits.get(name)
    if limit is None:
        if not is_overcommitable(name):
            yield required(child(path, "limits"), "Limit must be set for non overcommitable resources")
        return
    if limit == request:
        return
    asked, most = Quantity.parse(request), Quantity.parse(limit)
    if asked != most and not is_overcommitable(name):
        yield invalid(child(path, "requests"), request, f"must be equal to {name} limit of {limit}")
    elif asked > most:
        text = f"must be less than or equal to {name} limit of {limit}"
        yield invalid(child(path, "requests"), request, text)


def _claim_errors(claims: list[Any], claim_names: Collection[str], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        at = index(path, position)
        named = {"name": claim} if isinstance(claim, str) else claim  # strings in KEP-3063 as drafted
        name, request = named.get("name") or "", named.get("request") or ""
        if not name:
            yield required(at)
            continue
        yield from _repeated_claim(name, request, seen, at)
        if name not in claim_names:
            text = "must be one of the names in pod.spec.resourceClaims"
            text += f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            yield FieldError(ErrorType.NOT_FOUND, at, name, text)


def _repeated_claim(name: str, request: str, seen: set[str], path: str) -> Iterator[FieldError]:
    if name in seen:  # all its requests are there already
        yield duplicate(path, name)
        return
    whole = f"{name}/{request}" if request else name
    if request:
        texts = names.dns1123_label(request)
        yield from (invalid(child(path, "request"), request, text) for text in texts)
    if whole in seen:
        yield duplicate(path, whole)
    elif not request:
        yield from (duplicate(path, name) for key in sorted(seen) if key.partition("/")[0] == name)
    seen.add(whole)


def pod_name_errors(name: str, path: str, *, lists_pages: bool) -> Iterator[FieldError]:
    """`lists_pages`: huge pages are listed as supported."""
    errors = list(name_errors(name, path))
    yield from errors
    if not errors and name not in _SHARED and not name.startswith(HUGEPAGES):
        yield not_supported(path, name, sorted({*_SHARED, HUGEPAGES} if lists_pages else _SHARED))


def round_up(text: str) -> str:
    """Nothing finer than a thousandth is left."""
    if not text.endswith(("n", "u")) and "e-" not in text:
        return text
    amount = Quantity.parse(text)
    return Quantity(amount.milli_value(), -3, amount.format).canonical()


def round_amounts(holder: Object | None, *fields: str) -> None:
    """Rounds the amounts of resources in these fields (SetDefaults_ResourceList)."""
    for field in fields:
        amounts = (holder or {}).get(field) or {}
        for name, text in amounts.items():
            amounts[name] = round_up(text)

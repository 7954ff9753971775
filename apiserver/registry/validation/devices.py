"""What claims, classes and slices of resource.k8s.io have in common: names, selectors, tolerations, configs.

Source: pkg/apis/resource/validation/validation.go, 1.34 to 1.37.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from apimachinery.cel.device_features import DeviceFeatures
from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apimachinery.validation import names
from apiserver.registry.validation.expressions import device_selector_errors

MAX_SELECTORS = MAX_REQUESTS = MAX_CONSTRAINTS = MAX_CONFIGS = 32
MAX_TOLERATIONS = 16
MAX_EXPRESSION_BYTES = MAX_PARAMETERS_BYTES = 10 * 1024
_MAX_ID, _MAX_DOMAIN, _MAX_DRIVER, _MAX_POOL = 32, 63, 63, 253
_REQUEST_TEXT = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Rule = Callable[[Any, str], Iterator[FieldError]]


def each(items: Sequence[Any] | None, most: int, rule: Rule, path: str) -> Iterator[FieldError]:
    """Each item; only Too many if there are too many."""
    if items and len(items) > most:
        yield too_many(path, len(items), most)
        return
    for position, item in enumerate(items or ()):
        yield from rule(item, index(path, position))


def unique(
    items: Sequence[Any] | None,
    most: int,
    rule: Rule,
    path: str,
    key: Callable[[Any], str],
    field: str = "name",
) -> Iterator[FieldError]:
    """The same for items that a key tells apart; repeats are Duplicate at `field` of the item."""
    if items and len(items) > most:
        yield too_many(path, len(items), most)
        return
    seen: set[str] = set()
    for position, item in enumerate(items or ()):
        at = index(path, position)
        yield from rule(item, at)
        name = key(item)
        if name in seen:
            yield duplicate(child(at, field) if field else at, name)
        seen.add(name)


def label(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.dns1123_label(value))


def driver(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    if len(value) > _MAX_DRIVER:
        yield too_long(path, _MAX_DRIVER)
    yield from (invalid(path, value, text) for text in names.dns1123_subdomain(value.lower()))


def pool(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
        return
    if len(value) > _MAX_POOL:
        yield too_long(path, _MAX_POOL)
    for part in value.split("/"):
        yield from (invalid(path, part, text) for text in names.dns1123_subdomain(part))


def class_name(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    else:
        yield from (invalid(path, value, text) for text in names.dns1123_subdomain(value))


def identifier(value: str, path: str) -> Iterator[FieldError]:
    if len(value) > _MAX_ID:
        yield too_long(path, _MAX_ID)
    yield from (invalid(path, value, text) for text in names.c_identifier(value))


def qualified(value: str, path: str) -> Iterator[FieldError]:
    """The name of an attribute or capacity: `id` or `domain/id`."""
    if not value:
        yield required(path, "name required")
        return
    domain, slash, rest = value.partition("/")
    if not slash:
        yield from identifier(value, path)
        return
    yield from _domain_and_id(domain, rest, path)


def fully_qualified(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path, "name required")
        return
    domain, slash, rest = value.partition("/")
    if not slash:
        yield invalid(path, value, "a fully qualified name must be a domain and a name separated by a slash")
        return
    yield from _domain_and_id(domain, rest, path)


def _domain_and_id(domain: str, rest: str, path: str) -> Iterator[FieldError]:
    if not domain:
        yield required(path, "the domain must not be empty")
    else:
        if len(domain) > _MAX_DOMAIN:
            yield too_long(path, _MAX_DOMAIN)
        yield from (invalid(path, domain, text) for text in names.dns1123_subdomain(domain))
    if not rest:
        yield required(path, "the name must not be empty")
    else:
        yield from identifier(rest, path)


def request_reference(requests: Collection[str]) -> Rule:
    """A rule for names of requests (`name` or `name/subrequest`)."""

    def run(value: str, path: str) -> Iterator[FieldError]:
        parts = value.split("/")
        if len(parts) > 2:
            yield invalid(path, value, _REQUEST_TEXT)
            return
        for part in parts:
            yield from label(part, path)
        if value not in requests:
            yield invalid(path, value, _REQUEST_TEXT)

    return run


def selectors(items: list[Object] | None, path: str, features: DeviceFeatures) -> Iterator[FieldError]:
    """`features` say what expressions may use."""

    def rule(selector: Object, at: str) -> Iterator[FieldError]:
        cel = selector.get("cel")
        if cel is None:
            yield required(child(at, "cel"))
            return
        expression = cel.get("expression") or ""
        where = child(child(at, "cel"), "expression")
        if len(expression.encode()) > MAX_EXPRESSION_BYTES:
            yield too_long(where, MAX_EXPRESSION_BYTES)
        else:
            yield from device_selector_errors(expression, where, features)

    yield from each(items, MAX_SELECTORS, rule, path)


def allocation_mode(mode: str, count: int, path: str) -> Iterator[FieldError]:
    """`path` is that of the request."""
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            yield invalid(child(path, "count"), count, text)
    elif mode == "ExactCount":
        if count <= 0:
            yield invalid(child(path, "count"), count, "must be greater than zero")
    else:
        yield not_supported(child(path, "allocationMode"), mode, ("All", "ExactCount"))


def toleration(effects: tuple[str, ...]) -> Rule:
    """A rule for device tolerations; the effects depend on the version."""

    def run(item: Object, path: str) -> Iterator[FieldError]:
        key, operator, value = (item.get(name) or "" for name in ("key", "operator", "value"))
        if key:
            yield from (invalid(child(path, "key"), key, text) for text in names.qualified_name(key))
        if operator == "Exists":
            if value:
                yield invalid(child(path, "value"), value, "must be empty for operator `Exists`")
        elif operator == "Equal":
            if not key:
                yield required(child(path, "key"), "required for operator `Equal`")
            yield from (invalid(child(path, "value"), value, text) for text in names.label_value(value))
        elif not operator:
            yield required(child(path, "operator"))
        else:
            yield not_supported(child(path, "operator"), operator, ("Equal", "Exists"))
        effect = item.get("effect") or ""
        if effect and effect not in effects:
            yield not_supported(child(path, "effect"), effect, effects)

    return run


def effects_of(minor: int) -> tuple[str, ...]:
    """Taint effects that a minor knows."""
    return ("NoExecute", "NoSchedule", "None") if minor >= 35 else ("NoExecute", "NoSchedule")


def opaque(config: Object, path: str, *, stored: bool) -> Iterator[FieldError]:
    source = config.get("opaque")
    if source is None:
        yield required(child(path, "opaque"))
        return
    at = child(path, "opaque")
    yield from driver(source.get("driver") or "", child(at, "driver"))
    parameters = source.get("parameters")
    where = child(at, "parameters")
    if parameters is None:
        yield required(where)
    elif not stored and len(json.dumps(parameters, separators=(",", ":"))) > MAX_PARAMETERS_BYTES:
        yield too_long(where, MAX_PARAMETERS_BYTES)
    elif not isinstance(parameters, dict):
        yield invalid(where, "<value omitted>", "must be a valid JSON object")

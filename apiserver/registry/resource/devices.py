"""Claims, classes and slices share these rules: lists, names, selectors, configurations, taints.

The rules are written for the shape of v1, to which objects of other versions are converted first. A list of
driver calls that are unneeded is from 1.37.

Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37 (validateCELSelector, 1.36;
validateSkipNodeOperations, 1.37).
"""

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.conversion.scheme import CONVERTERS
from kubeskew.apimachinery.field import (
    ErrorType,
    FieldError,
    Named,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_many,
)
from kubeskew.apimachinery.golang.raw_extensions import text_of
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.shared.volumes.sources import csi_driver_name

_GROUP = "resource.k8s.io"

_MOST_COST = 1_000_000
_INTERNAL = "program instantiation failed: "
SEVERAL = "exactly one field must be set, not several"
MAX_SELECTORS = MAX_REQUESTS = MAX_CONSTRAINTS = MAX_CONFIGS = 32
MAX_EXPRESSION_BYTES = MAX_PARAMETERS_BYTES = 10 * 1024
_MAX_ID = 32
_MAX_POOL = 253
_OMITTED_VALUE = "<value omitted>"
_REQUEST_TEXT = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_FULL_TEXT = "a fully qualified name must be a domain and a name separated by a slash"

Rule = Callable[[Any, str], Iterator[FieldError]]
MAX_BINDING_CONDITIONS = 4
_ALL = "*"
_PREPARE = "NodePrepareResources"
_UNPREPARE = "NodeUnprepareResources"
_SUPPORTED = (_ALL, _PREPARE, _UNPREPARE)
_TEXT = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"


def as_v1(obj: Object, ctx: StrategyContext) -> Object:
    """The object is a copy, unless the hub has the shape of v1."""
    hub = GroupVersionKind(_GROUP, ctx.resource.version, ctx.resource.kind)
    if hub not in CONVERTERS:
        return obj
    widened = copy.deepcopy(obj)
    CONVERTERS[hub][0](widened)
    return widened


def device_selector_errors(
    expression: str, path: str, features: DeviceFeatures, *, priced: bool = True
) -> Iterator[FieldError]:
    """A selector that was stored before may use newer libraries. `priced`: its cost counts."""
    from kubeskew.apimachinery.cel.devices import compile_selector  # expressions are rare, and much to import

    selector = compile_selector(expression, features)
    if selector.error is None:
        if priced and selector.most_expensive > _MOST_COST:
            yield forbidden(path, "too complex, exceeds cost limit")
    elif str(selector.error).startswith(_INTERNAL):
        yield FieldError(ErrorType.INTERNAL, path, detail=str(selector.error))
    else:
        yield invalid(path, expression, str(selector.error))


# --- lists and maps ---------------------------------------------------------------------------------------


def each(
    items: Sequence[Any] | None, most: int | None, rule: Rule, path: str, rules: DRAFeatures
) -> Iterator[FieldError]:
    """Since 1.35 a list that is too long has no other error."""
    items = items or ()
    if most is None or len(items) <= most or not rules.declarative_validation:
        for position, item in enumerate(items):
            yield from rule(item, index(path, position))
    if most is not None and len(items) > most:
        yield _too_many(path, len(items), most, rules)


def unique(
    items: Sequence[Any] | None,
    most: int | None,
    rule: Rule,
    path: str,
    rules: DRAFeatures,
    identity: Callable[[Any], str],
    field: str = "name",
    shown: Callable[[Any], str] | None = None,
) -> Iterator[FieldError]:
    """`identity` distinguishes the items; errors name it, or what `shown` makes of the item. Until 1.34
    repeats are reported at `field` of the item.
    """
    items = items or ()
    yield from each(items, most, rule, path, rules)
    if most is not None and len(items) > most and rules.declarative_validation:
        return
    seen: set[str] = set()
    for position, item in enumerate(items):
        at, name = index(path, position), identity(item)
        if name in seen:
            text = shown(item) if shown is not None else name
            yield duplicate(child(at, field) if field and not rules.declarative_validation else at, text)
        seen.add(name)


def entries(
    items: Mapping[str, Any] | None,
    most: int | None,
    longest: int,
    check_name: Rule,
    rule: Rule,
    path: str,
    rules: DRAFeatures,
) -> Iterator[FieldError]:
    """Names and values are checked by name; a name longer than `longest` is shown shortened in paths."""
    items = items or {}
    if most is not None and len(items) > most:
        yield _too_many(path, len(items), most, rules)
        if rules.declarative_validation:
            return
    for name in sorted(items):
        at = key(path, _shortened(name, longest))
        yield from check_name(name, path if rules.keys_at_map else at)
        yield from rule(items[name], at)


def _shortened(name: str, longest: int) -> str:
    longest = max(longest, 16)
    if len(name) <= longest:
        return name
    rest = longest - 3
    return f"{name[: (rest + 1) // 2]}...{name[len(name) - rest // 2 :]}"


def _too_many(path: str, actual: int, most: int, rules: DRAFeatures) -> FieldError:
    return too_many(path, actual, most) if rules.current_wording else over_length(path, most, rules)


def over_length(path: str, most: int, rules: DRAFeatures) -> FieldError:
    text = f"may not be more than {most} bytes" if rules.current_wording else f"may not be longer than {most}"
    return FieldError(ErrorType.TOO_LONG, path, detail=text)


# --- names ------------------------------------------------------------------------------------------------


def label(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.dns1123_label(value))


def subdomain(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.dns1123_subdomain(value))


def driver(value: str, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """The rule is that of CSI drivers (ValidateCSIDriverName)."""
    yield from csi_driver_name(value, path, required_alone=rules.declarative_validation)


def pool(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
        return
    if len(value) > _MAX_POOL:
        yield FieldError(ErrorType.TOO_LONG, path, detail=f"may not be more than {_MAX_POOL} bytes")
    for part in value.split("/"):
        yield from subdomain(part, path)


def class_name(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    else:
        yield from subdomain(value, path)


def _identifier(value: str, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    if len(value) > _MAX_ID:
        yield over_length(path, _MAX_ID, rules)
    kind = ErrorType.TYPE_INVALID if rules.identifiers_are_types else ErrorType.INVALID
    yield from (FieldError(kind, path, value, text) for text in names.c_identifier(value))


def qualified(rules: DRAFeatures) -> Rule:
    """The name of an attribute or capacity is `id` or `domain/id`."""

    def run(value: str, path: str) -> Iterator[FieldError]:
        if not value and not rules.declarative_validation:
            yield required(path, "name required")
            return
        parts = value.split("/")
        if len(parts) == 1:
            yield from _identifier(value, path, rules)
        elif len(parts) == 2:
            domain = "domain" if rules.current_wording else "prefix"
            yield from _part(
                parts[0],
                f"the {domain} must not be empty",
                lambda name, at: driver(name, at, rules),
                path,
                rules,
            )
            yield from _part(
                parts[1],
                "the name must not be empty",
                lambda name, at: _identifier(name, at, rules),
                path,
                rules,
            )
        # Upstream lets more slashes through.

    return run


def _part(value: str, empty: str, rule: Rule, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    if value:
        yield from rule(value, path)
    else:
        yield invalid(path, "", empty) if rules.declarative_validation else required(path, empty)


def fully_qualified(value: str, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    yield from qualified(rules)(value, path)
    if "/" in value or not (value or rules.declarative_validation):
        return
    if rules.declarative_validation:
        yield invalid(path, Named(value), _FULL_TEXT)
    elif rules.current_wording:
        yield invalid(path, value, "must include a domain")
    else:
        yield required(child(path, "domain"), "must include a prefix")


def request_reference(requests: Collection[str]) -> Rule:
    """Names of requests are `name` or `name/subrequest`."""

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


# --- selectors and configurations -------------------------------------------------------------------------


def selectors(
    items: list[Object] | None, path: str, rules: DRAFeatures, *, stored: bool
) -> Iterator[FieldError]:
    """`stored`: the very same were accepted before."""

    def rule(selector: Object, at: str) -> Iterator[FieldError]:
        cel = selector.get("cel")
        if cel is None:
            yield required(child(at, "cel"))
            return
        if stored and rules.trusts_stored:
            return
        expression = cel.get("expression") or ""
        where = child(child(at, "cel"), "expression")
        if rules.limits_sizes and len(expression.encode()) > MAX_EXPRESSION_BYTES:
            yield over_length(where, MAX_EXPRESSION_BYTES, rules)
        else:
            features = rules.selectors(stored=stored)
            yield from device_selector_errors(expression, where, features, priced=rules.limits_sizes)

    yield from each(items, MAX_SELECTORS, rule, path, rules)


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


def opaque(config: Object, path: str, rules: DRAFeatures, *, stored: bool) -> Iterator[FieldError]:
    source = config.get("opaque")
    if source is None:
        yield required(child(path, "opaque"))
        return
    at = child(path, "opaque")
    yield from driver(source.get("driver") or "", child(at, "driver"), rules)
    yield from raw_object(source.get("parameters"), child(at, "parameters"), rules, stored=stored)


def raw_object(value: Any, path: str, rules: DRAFeatures, *, stored: bool) -> Iterator[FieldError]:
    """Any JSON object has at most 10 KiB (no limit before 1.32); one that was stored before may be larger."""
    if value is None:
        yield required(path)
        return
    size = len(text_of(value))
    if rules.limits_sizes and not stored and size > MAX_PARAMETERS_BYTES:
        yield over_length(path, MAX_PARAMETERS_BYTES, rules)
    elif not isinstance(value, dict):
        yield invalid(path, _OMITTED_VALUE, rules.object_text)


def taint_errors(taint: Object, old: Object | None, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """An effect that `old` has already is not looked at."""
    name, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
    yield from _label_name(name, child(path, "key"))
    if value:
        yield from _label_value(value, child(path, "value"))
    if old is not None and rules.declarative_validation and (old.get("effect") or "") == effect:
        return
    if not effect:
        yield required(child(path, "effect"))
    elif effect not in rules.effects:
        yield not_supported(child(path, "effect"), effect, rules.effects)


def toleration_errors(
    tolerations: list[Object] | None, path: str, rules: DRAFeatures
) -> Iterator[FieldError]:
    """The number of tolerations of a request or result is not limited."""
    for position, item in enumerate(tolerations or ()):
        yield from _toleration(item, index(path, position), rules)


def _toleration(item: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    name, operator, value = (item.get(field) or "" for field in ("key", "operator", "value"))
    if name:
        yield from _label_name(name, child(path, "key"))
    if operator == "Exists":
        if value:
            yield invalid(child(path, "value"), value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from _label_value(value, child(path, "value"))
    elif not operator:
        yield required(child(path, "operator"))
    else:
        yield not_supported(child(path, "operator"), operator, ("Equal", "Exists"))
    effect = item.get("effect") or ""
    if effect and effect not in rules.effects:
        yield not_supported(child(path, "effect"), effect, rules.effects)


def binding_condition_errors(holder: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Some conditions must hold, and others must not, before a pod is bound to a device."""
    good, bad = holder.get("bindingConditions") or [], holder.get("bindingFailureConditions") or []
    at, at_bad = child(path, "bindingConditions"), child(path, "bindingFailureConditions")
    yield from each(good, MAX_BINDING_CONDITIONS, _label_name, at, rules)
    yield from each(bad, MAX_BINDING_CONDITIONS, _label_name, at_bad, rules)
    yield from _repeats(good, at)
    repeated, allowed = repeats(bad), frozenset(good)
    for position, condition in enumerate(bad):
        if position in repeated:
            yield duplicate(index(at_bad, position), condition)
        if condition in allowed:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(index(at_bad, position), condition, text)
    if bad and not good:
        text = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(at, holder.get("bindingConditions"), text)
    if good and not bad:
        text = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(at_bad, holder.get("bindingFailureConditions"), text)


def _repeats(conditions: list[str], path: str) -> Iterator[FieldError]:
    for position in sorted(repeats(conditions)):
        yield duplicate(index(path, position), conditions[position])


def _label_name(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.qualified_name(value))


def _label_value(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.label_value(value))


def skipped_operation_errors(operations: list[str] | None, path: str) -> Iterator[FieldError]:
    listed = operations or []
    if _PREPARE in listed and _UNPREPARE not in listed and _ALL not in listed:
        yield invalid(path, listed, _TEXT)
    repeated = repeats(listed)
    for position, operation in enumerate(listed):
        if operation not in _SUPPORTED:
            yield not_supported(index(path, position), operation, _SUPPORTED)
        if position in repeated:
            yield duplicate(index(path, position), operation)

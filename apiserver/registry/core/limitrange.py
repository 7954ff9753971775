"""LimitRange: defaults, validation and strategy.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go (ValidateLimitRange),
pkg/registry/core/limitrange/strategy.go, 1.36.
"""

from collections.abc import Iterator, Mapping

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    Named,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_native
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, struct
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.amounts import round_amounts

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_MAX_MILLI = ((1 << 63) - 1) // 1000
Values = Mapping[str, Quantity]


def default_limit_range(obj: Object, _: DefaultingContext) -> None:
    for item in each(struct(obj, "spec"), "limits"):
        round_amounts(item, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        for name, values in (("default", default), ("defaultRequest", request)):
            if values:
                item[name] = values


def limit_range_errors(spec: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, limit in enumerate(spec.get("limits") or []):
        at = index("spec.limits", position)
        kind = limit.get("type") or ""
        yield from _type_errors(kind, child(at, "type"))
        if kind in seen:
            yield duplicate(child(at, "type"), kind)
        seen.add(kind)
        yield from _limit_errors(limit, kind, at)


def _type_errors(kind: str, path: str) -> Iterator[FieldError]:
    texts = names.qualified_name(kind)
    yield from (invalid(path, Named(kind), text) for text in texts)
    if not texts and "/" not in kind and kind not in _TYPES:
        yield invalid(path, Named(kind), "must be a standard limit type or fully qualified")


def _limit_errors(limit: Object, kind: str, path: str) -> Iterator[FieldError]:
    yield from _name_errors(limit, "max", kind, path)
    yield from _name_errors(limit, "min", kind, path)
    for field in ("default", "defaultRequest"):
        if kind != "Pod":
            yield from _name_errors(limit, field, kind, path)
        elif limit.get(field):
            yield forbidden(child(path, field), "may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in (limit.get(field) or {}) for field in ("min", "max")
    ):
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield required(child(path, "limits"), text)
    yield from _name_errors(limit, "maxLimitRequestRatio", kind, path)
    yield from _relations(limit, kind, path)


def _name_errors(limit: Object, field: str, kind: str, path: str) -> Iterator[FieldError]:
    check = amounts.container_name_errors if kind in {"Pod", "Container"} else amounts.name_errors
    for name in sorted(limit.get(field) or {}):
        yield from check(name, key(child(path, field), name))


def _relations(limit: Object, kind: str, path: str) -> Iterator[FieldError]:
    fields = ["max", "min", "maxLimitRequestRatio"]
    if kind != "Pod":
        fields += ["default", "defaultRequest"]
    found: dict[str, dict[str, Quantity]] = {}
    for field in fields:
        for name, amount in (limit.get(field) or {}).items():
            found.setdefault(name, {})[field] = Quantity.of(amount)
    for name in sorted(found):
        yield from _ordered(found[name], name, path)
        yield from _ratio_errors(found[name], name, path)
        yield from _fixed_errors(found[name], name, path)


# The smaller field, the larger, the field at fault, the field whose value is shown, and what they are called.
_ORDER = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    (
        "defaultRequest", "default", "defaultRequest", "defaultRequest",
        "default request value", "default limit value",
    ),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)  # fmt: skip


def _ordered(values: Values, name: str, path: str) -> Iterator[FieldError]:
    for smaller, larger, at_fault, shown, one, other in _ORDER:
        if smaller in values and larger in values and values[smaller] > values[larger]:
            text = f"{one} {values[smaller]} is greater than {other} {values[larger]}"
            yield invalid(key(child(path, at_fault), name), values[shown].canonical(), text)


def _ratio_errors(values: Values, name: str, path: str) -> Iterator[FieldError]:
    ratio, least, most = values.get("maxLimitRequestRatio"), values.get("min"), values.get("max")
    if ratio is None:
        return
    at = key(child(path, "maxLimitRequestRatio"), name)
    if ratio < Quantity.parse("1"):
        yield invalid(at, ratio.canonical(), f"ratio {ratio} is less than 1")
    if least is None or most is None:
        return
    wanted, low, high = float(ratio.value()), least.value(), most.value()
    if all(quantity.value() < _MAX_MILLI for quantity in (ratio, least, most)):
        wanted, low, high = ratio.milli_value() / 1000, least.milli_value(), most.milli_value()
    allowed = high / low if low else float("inf") if high else float("nan")
    if wanted > allowed:
        yield invalid(at, ratio.canonical(), f"ratio {ratio} is greater than max/min = {allowed:f}")


def _fixed_errors(values: Values, name: str, path: str) -> Iterator[FieldError]:
    default, request = values.get("default"), values.get("defaultRequest")
    overcommitted = is_native(name) and not name.startswith(amounts.HUGEPAGES)
    if overcommitted or default is None or request is None or default == request:
        return
    text = f"default value {default} must equal to defaultRequest value {request} in {name}"
    yield invalid(key(child(path, "defaultRequest"), name), request.canonical(), text)


class LimitRangeStrategy(CreatedByUpdate):
    """Limit ranges without a name get a uid for it."""

    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = ctx.entropy.uid()

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(limit_range_errors(obj.get("spec") or {}))

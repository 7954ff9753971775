"""Holds the rules of device taints, tolerations and binding conditions.

Source: pkg/apis/resource/validation/validation.go, 1.33 to 1.37.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.shared.repeats import repeats

MAX_BINDING_CONDITIONS = 4


def taint_errors(taint: Object, old: Object | None, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Yields errors of a taint; an effect that `old` has already is not looked at."""
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
    """Yields errors of the tolerations of a request or result; their number is not limited."""
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


def binding_errors(holder: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Checks the conditions that must hold, and must not, before a pod is bound to a device."""
    good, bad = holder.get("bindingConditions") or [], holder.get("bindingFailureConditions") or []
    at, at_bad = child(path, "bindingConditions"), child(path, "bindingFailureConditions")
    yield from devices.each(good, MAX_BINDING_CONDITIONS, _label_name, at, rules)
    yield from devices.each(bad, MAX_BINDING_CONDITIONS, _label_name, at_bad, rules)
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

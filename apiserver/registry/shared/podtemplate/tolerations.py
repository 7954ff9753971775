"""Holds the rules of tolerations, of pods and of runtime classes, and of taints.

Source: pkg/apis/core/validation/validation.go (ValidateTolerations, validateNodeTaints), 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import ErrorType, FieldError, child, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.internal_values import taint as internal_taint

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_INTEGER = "^(0|-?[1-9][0-9]*)$"
_INTEGER_TEXT = "must be a valid decimal integer in canonical form"
_OPERATORS = ("Equal", "Exists")
_ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def toleration_errors(
    tolerations: list[Object], path: str, *, comparisons: bool = False
) -> Iterator[FieldError]:
    """Checks tolerations; `comparisons`: Lt and Gt are operators too (gate
    TaintTolerationComparisonOperators).
    """
    for position, toleration in enumerate(tolerations):
        at = index(path, position)
        name, operator = toleration.get("key") or "", toleration.get("operator") or ""
        effect = toleration.get("effect") or ""
        if name:
            yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        elif operator != "Exists":
            yield invalid(child(at, "operator"), operator, _ALL_KEYS)
        if effect != "NoExecute" and toleration.get("tolerationSeconds") is not None:
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(child(at, "effect"), effect, text)
        yield from _operator_errors(toleration, operator, at, comparisons=comparisons)
        if effect and effect not in EFFECTS:
            yield not_supported(child(at, "effect"), effect, EFFECTS)


def _operator_errors(
    toleration: Object, operator: str, path: str, *, comparisons: bool
) -> Iterator[FieldError]:
    value, at = toleration.get("value") or "", child(path, "operator")
    if operator in {"", "Equal"}:
        texts = names.label_value(value) if value else []
        if texts:
            yield invalid(at, value, ";".join(texts))
    elif operator == "Exists":
        if value:
            yield invalid(at, value, "value must be empty when `operator` is 'Exists'")
    elif operator not in {"Lt", "Gt"}:
        yield not_supported(at, operator, _OPERATORS)
    elif not comparisons:
        yield not_supported(at, operator, (*_OPERATORS, "Lt", "Gt"))
    else:
        yield from _number_errors(value, child(path, "value"))


def _number_errors(value: str, path: str) -> Iterator[FieldError]:
    if not re.fullmatch(_INTEGER, value):
        yield invalid(path, value, _INTEGER_TEXT)
    if not re.fullmatch("[+-]?[0-9]+", value):
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": invalid syntax')
    elif not -(2**63) <= int(value) < 2**63:
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": value out of range')


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
        elif effect not in EFFECTS:
            yield not_supported(child(at, "effect"), effect, EFFECTS)
        if (name, effect) in seen:
            text = "taints must be unique by key and effect pair"
            yield FieldError(ErrorType.DUPLICATE, at, internal_taint(taint), text)
        seen.add((name, effect))

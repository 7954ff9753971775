"""Requirements: the single conditions of which label selectors are made.

Source: k8s.io/apimachinery/pkg/labels/selector.go, 1.36.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, listed

_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """A selector that is not valid; the text is upstream's."""


class Operator(StrEnum):
    """The relation of a requirement's key to its values; the value is upstream's own name."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = "gt"
    LESS = "lt"


EQUAL = {Operator.EQUALS, Operator.DOUBLE_EQUALS}
UNARY = {Operator.EXISTS, Operator.DOES_NOT_EXIST}
ORDERED = {Operator.GREATER, Operator.LESS}
SETS = {Operator.IN, Operator.NOT_IN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a selector, its `values` in the order given."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _members: frozenset[str] = field(init=False, repr=False, compare=False)  # clients may send thousands

    def __post_init__(self) -> None:
        object.__setattr__(self, "_members", frozenset(self.values))

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Sequence[str]) -> "Requirement":
        """Returns a requirement after checking that key, operator and values fit together; raises
        SelectorError."""
        errors = [*key_errors(key, "key"), *_count_errors(operator, values)]
        for position, value in enumerate(values):
            texts = names.label_value(value)
            if texts:
                errors.append(invalid(f"values[{position}][{key}]", value, "; ".join(texts)))
        if errors:
            raise SelectorError(listed(errors))
        return cls(key, operator, tuple(values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether `labels` meet the condition; a missing label meets `!=`, `notin` and `!`."""
        value = labels.get(self.key)
        if self.operator in UNARY:
            return (value is None) is (self.operator is Operator.DOES_NOT_EXIST)
        if self.operator in (Operator.NOT_IN, Operator.NOT_EQUALS):
            return value not in self._members
        if self.operator not in ORDERED:
            return value in self._members
        ours, theirs = _int64(value or ""), _int64(self.values[0])
        if ours is None or theirs is None:
            return False
        return ours > theirs if self.operator is Operator.GREATER else ours < theirs

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"
        return f"{self.key}{self.operator}{self.values[0]}"


def key_errors(key: str, path: str) -> list[FieldError]:
    """Returns the errors of a label key."""
    texts = names.qualified_name(key)
    return [invalid(path, key, "; ".join(texts))] if texts else []


def _count_errors(operator: Operator, values: Sequence[str]) -> list[FieldError]:
    """Checks the number and the form of the values that the operator needs."""
    shown = list(values) or None
    if operator in SETS:
        detail = "" if values else "for 'in', 'notin' operators, values set can't be empty"
    elif operator in UNARY:
        detail = "values set must be empty for exists and does not exist" if values else ""
    elif operator in ORDERED:
        detail = "" if len(values) == 1 else "for 'Gt', 'Lt' operators, exactly one value is required"
    else:
        detail = "" if len(values) == 1 else "exact-match compatibility requires one single value"
    errors = [invalid("values", shown, detail)] if detail else []
    if operator in ORDERED:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            invalid(f"values[{position}]", value, text)
            for position, value in enumerate(values)
            if _int64(value) is None
        ]
    return errors


def _int64(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None

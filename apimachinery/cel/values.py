"""Values of expressions: Python's own where they fit, the rest here; their equality, order and type names.

bool, int (int64), UInt, float, str, bytes, None, list, Mapping, timedelta, datetime, and opaque objects.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from apimachinery.cel.semver import Semver
from apimachinery.quantity import Quantity

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class UInt(int):
    """An unsigned integer: a type of its own, equal to an int of the same value."""


@dataclass(frozen=True, slots=True)
class Type:
    """The value of `type(x)`, `int`, `string`, …"""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional value; `present` tells `optional.none()` from `optional.of(null)`."""

    value: Any = None
    present: bool = False


NONE = Optional()

_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (UInt, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (type(None), "null_type"),
    (Mapping, "map"),
    (Sequence, "list"),
    (Type, "type"),
    (Optional, "optional_type"),
    (Quantity, "kubernetes.Quantity"),
    (Semver, "kubernetes.Semver"),
    (datetime, "google.protobuf.Timestamp"),
    (timedelta, "google.protobuf.Duration"),
)


def type_name(value: Any) -> str:
    """The name of the value's type, as cel-go shows it."""
    for kind, name in _NAMES:
        if isinstance(value, kind):
            return name
    return str(getattr(type(value), "cel_type", type(value).__name__))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    """CEL's `==`: numbers compare across types, everything else only within one; NaN equals nothing."""
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and left == right
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return left.compare(right) == 0
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


_ORDERED = (str, bytes, datetime, timedelta)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1; 2 if the two are not comparable (NaN)."""
    if isinstance(left, bool) and isinstance(right, bool):
        return int(left) - int(right)
    if is_number(left) and is_number(right):
        if left == right:
            return 0
        return -1 if left < right else 1 if left > right else 2
    for kind in _ORDERED:
        if isinstance(left, kind) and isinstance(right, kind):
            return -1 if operator.lt(left, right) else int(operator.gt(left, right))
    raise EvaluationError(NO_SUCH_OVERLOAD)


def lookup(container: Any, key: Any) -> Any:
    """`container[key]`; raises EvaluationError if there is none."""
    if isinstance(container, Mapping):
        try:
            return container[key]
        except KeyError:
            raise EvaluationError(f"no such key: {key}") from None
    if isinstance(container, list | tuple):
        if not is_number(key) or key != int(key):
            raise EvaluationError(NO_SUCH_OVERLOAD)
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {int(key)}")
        return container[int(key)]
    if isinstance(container, Optional):
        return find(container, key)
    raise EvaluationError(f"no such key: {key}")


def find(container: Any, key: Any) -> Optional:
    """`container[?key]`."""
    if isinstance(container, Optional):
        return find(container.value, key) if container.present else NONE
    if isinstance(container, Mapping):
        return Optional(container[key], True) if key in container else NONE
    if isinstance(container, list | tuple):
        if isinstance(key, int) and 0 <= key < len(container):
            return Optional(container[key], True)
        return NONE
    raise EvaluationError(NO_SUCH_OVERLOAD)

"""Values of expressions: Python's own where they fit, the rest here; their equality, order and type names.

bool, int (int64), UInt, float, str, bytes, None, list, Mapping, Duration, Timestamp, and opaque objects,
whose class has `cel_type`, the name of its type.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.semver import Semver
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.go_numbers import float_text
from kubeskew.apimachinery.quantity import Quantity

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class UInt(int):
    """An unsigned integer: a type of its own, equal to an int of the same value."""


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The value of `type(x)`, `int`, `string`, …"""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional value; `present` distinguishes `optional.none()` from `optional.of(null)`."""

    value: Any = None
    present: bool = False


NONE = Optional()


class Lazy:
    """A value that is computed when it is first read; a failure is kept as well.

    `function` returns the value and what it cost; the first reader pays.
    """

    __slots__ = ("_failure", "_function", "_known", "_value")

    def __init__(self, function: Callable[[], tuple[Any, int]]) -> None:
        self._function = function
        self._known = False
        self._value: Any = None
        self._failure: EvaluationError | None = None

    def get(self, spend: Callable[[int], None]) -> Any:
        """Returns the value; calls `spend` with the cost of computing it. Raises EvaluationError."""
        if not self._known:
            self._known = True
            try:
                self._value, cost = self._function()
            except EvaluationError as error:
                self._failure = error
                cost = error.cost
            spend(cost)
        if self._failure is not None:
            raise self._failure
        return self._value


class ObjectValue(dict[str, Any]):
    """An object made by `Name{field: value}`; `cel_type_of` is the object's type."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.cel_type_of = name


_NAMES: Mapping[type, str] = {
    bool: "bool",
    UInt: "uint",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    dict: "map",
    list: "list",
    tuple: "list",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
}


def type_name(value: Any) -> str:
    """Returns the name of the value's type, as cel-go shows it."""
    known = _NAMES.get(value.__class__)
    if known is not None:
        return known
    own = getattr(value, "cel_type_of", None) or getattr(value, "cel_type", None)
    if own is not None:
        return str(own)
    for kind, name in ((Mapping, "map"), (str, "string"), (Sequence, "list")):
        if isinstance(value, kind):
            return name
    return type(value).__name__


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    """CEL's `==`: numbers compare across types, everything else only within one; NaN equals nothing."""
    if left.__class__ is right.__class__ and left.__class__ in (str, int):
        return bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return left.compare(right) == 0
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and equal(left.value, right.value)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        own = getattr(left, "equals", None) or getattr(right, "equals", None)
        if own is not None:
            return bool(own(right if hasattr(left, "equals") else left))
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        custom = getattr(left, "equals", None) or getattr(right, "equals", None)
        if custom is not None:
            return bool(custom(right if hasattr(left, "equals") else left))
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


_ORDERED = (str, bytes, Timestamp, Duration)


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


def shown_key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def lookup(container: Any, key: Any) -> Any:
    """Returns `container[key]`; raises EvaluationError if there is no such entry."""
    if isinstance(container, Mapping):
        try:
            return container[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {shown_key(key)}") from None
    if isinstance(container, list | tuple):
        if not is_number(key):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if not math.isfinite(key) or key != int(key):
            raise EvaluationError(f"unsupported index value {float_text(key)} in list")
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {int(key)}")
        return container[int(key)]
    field = getattr(container, "cel_field", None)
    if field is not None:
        return field(key)
    raise EvaluationError(f"no such key: {shown_key(key)}")


def find(container: Any, key: Any) -> Optional:
    """Returns `container[?key]` of a container that is not optional; a container's own `cel_find` goes
    first."""
    own = getattr(container, "cel_find", None)
    if own is not None:
        return Optional(own(key), True)
    if isinstance(container, Mapping):
        try:
            return Optional(container[key], True) if key in container else NONE
        except TypeError:
            return NONE
    if isinstance(container, list | tuple):
        if not is_number(key):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if math.isfinite(key) and key == int(key) and 0 <= key < len(container):
            return Optional(container[int(key)], True)
    return NONE

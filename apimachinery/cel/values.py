"""Values of expressions: Python's own where they fit, the rest here; their equality, order and type names.

bool, int (int64), UInt, float, str, bytes, None, list, Mapping, Duration, Timestamp, and opaque objects,
whose class has `cel_type`, the name of its type. Semantic versions are read and ordered as by blang/semver,
which Kubernetes' CEL library uses.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.go_formats import duration_text, float_text, parse_uint, quoted
from kubeskew.apimachinery.quantity import Quantity

_SUFFIX = frozenset("+-")
_IDENTIFIER = re.compile(r"^[0-9A-Za-z-]+$")
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version; `build` takes no part in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """Parses a version; raises ValueError with blang's text."""
        if not text:
            raise ValueError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise ValueError("No Major.Minor.Patch elements found")
        patch, build = _cut(parts[2], "+")
        patch, pre = _cut(patch, "-")
        return cls(
            _number(parts[0], "major number"),
            _number(parts[1], "minor number"),
            _number(patch, "patch number"),
            _identifiers(pre, numeric_checked=True),
            _identifiers(build, numeric_checked=False),
        )

    @classmethod
    def parse_normalized(cls, text: str) -> "Semver":
        """Parses a version like `parse`, after adding missing parts and removing a `v` and leading zeros."""
        parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and not _SUFFIX.isdisjoint(parts[-1]):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        return cls.parse(".".join(parts + ["0"] * (3 - len(parts))))

    @classmethod
    def parse_prefixed(cls, text: str) -> "Semver":
        """Parses a version like `parse`; it may begin with a `v`."""
        return cls.parse(text.removeprefix("v"))

    def compare(self, other: "Semver") -> int:
        mine, theirs = self.core, other.core
        if mine != theirs:
            return -1 if mine < theirs else 1
        return _compare_pre(self.pre, other.pre)

    @property
    def core(self) -> tuple[int, int, int]:
        return (self.major, self.minor, self.patch)

    def __str__(self) -> str:
        pre, build = ".".join(self.pre), ".".join(self.build)
        return ".".join(map(str, self.core)) + (f"-{pre}" if pre else "") + (f"+{build}" if build else "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash((*self.core, self.pre))

    def __lt__(self, other: "Semver") -> bool:
        return self.compare(other) < 0


def _cut(text: str, separator: str) -> tuple[str, str | None]:
    head, found, tail = text.partition(separator)
    return head, tail if found else None


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest and rest[0] in "0123456789" else f"0{rest}"


def _number(text: str, what: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ValueError(f"Invalid character(s) found in {what} {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{what.capitalize()} must not contain leading zeroes {quoted(text)}")
    return parse_uint(text)


def _identifiers(text: str | None, *, numeric_checked: bool) -> tuple[str, ...]:
    if text is None:
        return ()
    kind = "prerelease" if numeric_checked else "build meta data"
    parts = tuple(text.split("."))
    for part in parts:
        if not part:
            raise ValueError("Prerelease is empty" if numeric_checked else "Build meta data is empty")
        if not _IDENTIFIER.match(part):
            raise ValueError(f"Invalid character(s) found in {kind} {quoted(part)}")
        if numeric_checked and part.isdigit() and len(part) > 1 and part[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quoted(part)}")
    return parts


def _compare_pre(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    if not left or not right:
        return (not left) - (not right)
    mine = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in left]
    theirs = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in right]
    return (mine > theirs) - (mine < theirs)


class UInt(int):
    """An unsigned integer: a type of its own, equal to an int of the same value."""


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The value of `type(x)`, `int`, `string`, …"""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional value; `present` distinguishes `optional.none()` from `optional.of(null)`.

    The value may be an error, which whoever takes it out gets.
    """

    value: Any = None
    present: bool = False

    def get(self) -> Any:
        """The value; raises it if it is an error."""
        if self.value.__class__ is EvaluationError:
            raise self.value
        return self.value


NONE = Optional()


class Lazy:
    """A value that is computed when it is first read; a failure is kept as well.

    `function` returns the value and its cost; the first reader pays.
    """

    __slots__ = ("_failure", "_function", "_known", "_value")

    def __init__(self, function: Callable[[], tuple[Any, int]]) -> None:
        self._function = function
        self._known = False
        self._value: Any = None
        self._failure: EvaluationError | None = None

    def get(self, spend: Callable[[int], None]) -> Any:
        """Calls `spend` with the cost of computing the value, once. Raises EvaluationError."""
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
    """cel-go's name of the value's type."""
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


_GO_TYPES = {
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "double": "types.Double",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "int": "types.Int",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "null_type": "types.Null",
    "string": "types.String",
    "uint": "types.Uint",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
    "kubernetes.NamedFormat": "cel.Format",
}


def go_type(value: Any) -> str:
    """The name of a value's type in Go, which some errors show."""
    name = type_name(value)
    return _GO_TYPES.get(name) or name.replace("kubernetes.", "cel.")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    """CEL's `==`: numbers compare across types, everything else only within one; NaN equals nothing."""
    if left.__class__ is right.__class__ and left.__class__ in (str, int):
        return bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if left is None or right is None:
        return left is right
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return left.compare(right) == 0
    if _compares_its_own(left) and left.__class__ is not right.__class__:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and equal(left.value, right.value)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        own = getattr(left, "equals", None)
        if own is not None:
            return bool(own(right))
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        custom = getattr(left, "equals", None)
        if custom is not None:
            return bool(custom(right))
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def _compares_its_own(value: Any) -> bool:
    """True of values of Kubernetes' libraries, which are equal to none of another type: that is an error."""
    return isinstance(value, Quantity | Semver) or (
        not isinstance(value, Mapping) and type_name(value).startswith(("net.", "kubernetes."))
    )


def same(left: Any, right: Any) -> bool:
    """CEL's `==` where an error counts as false."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


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
    if isinstance(key, Duration):
        return duration_text(key.nanos)
    return float_text(key) if isinstance(key, float) else str(key)


_KEYS = (bool, int, float, str)


def is_key(value: Any) -> bool:
    """True of values that may stand in brackets."""
    return isinstance(value, _KEYS)


def is_among(container: Mapping[Any, Any], key: Any) -> bool:
    """False if a key that the map has is another one: True and 1 are the same to Python alone."""
    if isinstance(key, str) or key not in (0, 1):
        return True
    return any(isinstance(own, bool) == isinstance(key, bool) for own in container if own == key)


def _check_key(key: Any) -> None:
    if not is_key(key):
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")


def lookup(container: Any, key: Any) -> Any:
    """Raises EvaluationError if the entry is not there."""
    _check_key(key)
    if isinstance(container, Mapping):
        try:
            value = container[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {shown_key(key)}") from None
        if not is_among(container, key):
            raise EvaluationError(f"no such key: {shown_key(key)}")
        return value
    if isinstance(container, list | tuple):
        if not is_number(key):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if not math.isfinite(key) or key != int(key):
            raise EvaluationError(f"unsupported index value {float_text(key)} in list")
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {shown_key(key)}")
        return container[int(key)]
    field = getattr(container, "cel_field", None)
    if field is not None:
        return field(key)
    raise EvaluationError(f"no such key: {shown_key(key)}")


def find(container: Any, key: Any) -> Optional:
    """`container[?key]` of a container that is not optional; a container's own `cel_find` goes first."""
    _check_key(key)
    own = getattr(container, "cel_find", None)
    if own is not None:
        return Optional(own(key), True)
    if isinstance(container, Mapping):
        try:
            found = key in container and is_among(container, key)
            return Optional(container[key], True) if found else NONE
        except TypeError:
            return NONE
    if isinstance(container, list | tuple):
        if not is_number(key):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if math.isfinite(key) and key == int(key) and 0 <= key < len(container):
            return Optional(container[int(key)], True)
    return NONE

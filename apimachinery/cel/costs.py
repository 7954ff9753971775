"""The costs of CEL: ranges of costs and sizes for estimates, and the costs of calls when they are evaluated.

Ranges are computed with 64-bit numbers that stop at their largest value.

Sources: github.com/google/cel-go/checker/cost.go, interpreter/runtimecost.go, ext (lists.go, sets.go) and
k8s.io/apiserver/pkg/cel/library/cost.go, as of Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from kubeskew.apimachinery.cel.errors import EvaluationError, PanicError
from kubeskew.apimachinery.cel.values import go_type, type_name

LARGEST = 2**64 - 1
LIST, MAP, OBJECT = 10, 30, 40
TRAVERSAL = 0.1  # per character
REGEX = 0.25  # per character of a pattern
CHECK = 350_000  # per question to the authorizer; an expression asks it twice

Arguments = Sequence[Any]
CallCost = Callable[[Arguments, Any], int]


def _sum(left: int, right: int) -> int:
    return min(left + right, LARGEST)


def _scaled(number: int, factor: float) -> int:
    if number > 0 and factor > 0 and float(number) > float(LARGEST) / factor:
        return LARGEST
    scaled = ceil(float(number) * factor)
    return LARGEST if scaled >= 2**64 else scaled


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes or costs from `low` to `high`, both inclusive."""

    low: int
    high: int

    def __add__(self, other: "Range") -> "Range":
        return Range(_sum(self.low, other.low), _sum(self.high, other.high))

    def __mul__(self, other: "Range") -> "Range":
        return Range(min(self.low * other.low, LARGEST), min(self.high * other.high, LARGEST))

    def scaled(self, factor: float) -> "Range":
        """Both ends are rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: "Range") -> "Range":
        return Range(min(self.low, other.low), max(self.high, other.high))


def fixed(number: int) -> Range:
    return Range(number, number)


UNKNOWN = Range(0, LARGEST)
ZERO = fixed(0)
ONE = fixed(1)
EMPTY = Range(LARGEST, 0)  # neutral in a union


@dataclass(frozen=True, slots=True)
class Entry:
    """Sizes of the keys (or places) and values of a map or list."""

    kind: str
    key: Range
    value: Range

    def union(self, other: "Entry") -> "Entry":
        return Entry(self.kind, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The cost of a call by itself, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


def size(value: Any) -> int:
    """Strings, bytes, lists and maps have their length, values with a `cel_size` that; anything else counts
    1."""
    kind = value.__class__
    if kind is str or kind is list or kind is dict or kind is bytes:
        return len(value)
    own = getattr(value, "cel_size", None)
    if own is not None:
        return int(own)
    return len(value) if isinstance(value, Sequence | Mapping) else 1


def traversal(value: Any) -> int:
    """Cost of reading a value as a whole: strings and bytes by length, containers by their parts, 1 for
    others."""
    if isinstance(value, str):
        return int(len(value.encode()) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, Mapping):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(traversal, value))
    return 1


def _first(factor: float) -> CallCost:
    return lambda arguments, _: ceil(size(arguments[0]) * factor)


def _smaller(arguments: Arguments, _: Any) -> int:
    return ceil(min(size(arguments[0]), size(arguments[1])) * TRAVERSAL)


def _both(arguments: Arguments, _: Any) -> int:
    return ceil((size(arguments[0]) + size(arguments[1])) * TRAVERSAL)


def _product(arguments: Arguments, _: Any) -> int:
    return ceil(size(arguments[0]) * TRAVERSAL) * ceil(size(arguments[1]) * TRAVERSAL)


def _matching(arguments: Arguments, _: Any) -> int:
    return ceil((1 + size(arguments[0])) * TRAVERSAL) * ceil(size(arguments[1]) * REGEX)


def _joined(_: Arguments, result: Any) -> int:
    return ceil(size(result) * 2 * TRAVERSAL)


def _contained(*, network: bool, text: bool) -> CallCost:
    """Of a text that is parsed first, its traversal; of a network, one more of the address."""

    def cost(arguments: Arguments, _: Any) -> int:
        size_ = size(arguments[0])
        found = ceil(2 * size_ * TRAVERSAL)
        if network:
            found += ceil(size_ * TRAVERSAL) + 1
        return found + (ceil(size(arguments[1]) * TRAVERSAL) if text else 0)

    return cost


def _validated(arguments: Arguments, _: Any) -> int:
    regex: int | None = getattr(arguments[0], "regex_size", None)
    if regex is None:
        return 1
    return ceil((1 + size(arguments[1])) * TRAVERSAL) * ceil(regex * REGEX)


def _selector(arguments: Arguments, _: Any) -> int:
    length = size(arguments[1])
    return LIST + ceil(length * TRAVERSAL) + ceil(ceil(length * 0.5) * (LIST + OBJECT))


def _traversed(arguments: Arguments, _: Any) -> int:
    return traversal(arguments[0])


def _parsed_ip(arguments: Arguments, _: Any) -> int:
    return 1 if hasattr(arguments[0], "cel_size") else ceil(size(arguments[0]) * TRAVERSAL)


_ORDERED = tuple(
    f"{word}_{kind}"
    for word in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
_BY_FUNCTION: Mapping[str, CallCost | int] = {
    "check": CHECK,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(
        (
            *("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"),
            *("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"),
        ),
        _first(TRAVERSAL),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * TRAVERSAL)),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _matching),
    "ip": _parsed_ip,
    "containsIP": _contained(network=False, text=False),
    "containsCIDR": _contained(network=True, text=False),
    "validate": _validated,
}
_BY_OVERLOAD: Mapping[str, CallCost] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _first(TRAVERSAL)),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "string_format", "strings_quote"), _first(TRAVERSAL)
    ),
    "in_list": lambda arguments, _: size(arguments[1]),
    **dict.fromkeys((*_ORDERED, "equals", "not_equals"), _smaller),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "matches_string": _matching,
    "contains_string": _product,
}


def _with_result(_: Arguments, result: Any) -> int:
    return LIST + size(result) + 1


_ADDABLE = frozenset({"bytes", "double", "int", "string", "uint"}) | {
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
}


def _as_list(value: Any) -> Any:
    """cel-go's counters of some functions take what they get for a list, and panic otherwise."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, EvaluationError):
        raise PanicError("interface conversion: *types.Err is not traits.Lister: missing method Add")
    missing = "Contains" if type_name(value) in _ADDABLE else "Add"
    raise PanicError(f"interface conversion: {go_type(value)} is not traits.Lister: missing method {missing}")


def _compared(place: int) -> CallCost:
    """Compares each item of the list at `place` with all others."""

    def cost(arguments: Arguments, _: Any) -> int:
        items = _as_list(arguments[place])
        return LIST + 1 + (int(len(items) ** 2 * (2.0 + item_cost(type_name(items[0])))) if items else 0)

    return cost


def item_cost(kind: str) -> float:
    """Returns what the comparison of two items costs besides."""
    return TRAVERSAL if kind in ("string", "bytes") else 0.0


def _flattened(arguments: Arguments, _: Any) -> int:
    depth = 1
    if len(arguments) == 2:
        depth = arguments[1]
        if type_name(depth) != "int":
            shown = "*types.Err" if isinstance(depth, EvaluationError) else go_type(depth)
            raise PanicError(f"interface conversion: ref.Val is {shown}, not types.Int")
    return (LIST + 1 + int(float(size(arguments[0])) * depth)) % 2**64


def _sets(factor: int) -> CallCost:
    return lambda arguments, _: 1 + size(arguments[0]) * size(arguments[1]) * factor


_BY_EXTENSION: Mapping[str, CallCost] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    **dict.fromkeys(("list_slice", "list_reverse", "lists_range"), _with_result),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flattened),
    "list_distinct": _compared(0),
    "cidr_contains_ip_string": _contained(network=False, text=True),
    "cidr_contains_cidr_string": _contained(network=True, text=True),
}


def call_cost(function: str, overload: str) -> CallCost | int:
    """Either a constant or a function that computes the cost from arguments and result.

    `overload` is empty if the types leave several possible.
    """
    if overload.endswith("_sort"):
        return _compared(0)
    if overload.endswith("_sortByAssociatedKeys"):
        return _compared(1)
    if overload in _BY_EXTENSION:
        return _BY_EXTENSION[overload]
    if function in _BY_FUNCTION:
        return _BY_FUNCTION[function]
    return _BY_OVERLOAD.get(overload, 1)

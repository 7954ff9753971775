"""Operators, conversions and functions of the CEL standard library, and of its string and list extensions."""

import importlib
import operator
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache, cmp_to_key
from itertools import pairwise
from typing import Any

from apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from apimachinery.cel.overloads import Overload, overload
from apimachinery.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Optional,
    Type,
    UInt,
    compare,
    equal,
    is_number,
    type_name,
)


def _checked_int(value: int, what: str = "integer overflow") -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError(what)
    return value


def _checked_uint(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def _same_number(left: Any, right: Any) -> Callable[[Any], Any]:
    """How a result of arithmetic is made: both operands must be of one numeric type."""
    kinds = {type_name(left), type_name(right)}
    if kinds == {"int"}:
        return _checked_int
    if kinds == {"uint"}:
        return _checked_uint
    if kinds == {"double"}:
        return float
    raise EvaluationError(NO_SUCH_OVERLOAD)


def add(left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _same_number(left, right)(left + right)
    for kind in (str, bytes, timedelta):
        if isinstance(left, kind) and isinstance(right, kind):
            return operator.add(left, right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return [*left, *right]
    raise EvaluationError(NO_SUCH_OVERLOAD)


def subtract(left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return _same_number(left, right)(left - right)


def multiply(left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return _same_number(left, right)(left * right)


def divide(left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    make = _same_number(left, right)
    if isinstance(left, float):
        if right == 0:
            return float("nan") if left == 0 or left != left else left * float("inf")
        return left / right
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return make(quotient if (left < 0) == (right < 0) else -quotient)


def modulo(left: Any, right: Any) -> Any:
    if not (isinstance(left, int) and isinstance(right, int)) or isinstance(left, bool):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    make = _same_number(left, right)
    if right == 0:
        raise EvaluationError("modulus by zero")
    remainder = abs(left) % abs(right)
    return make(-remainder if left < 0 else remainder)


def negate(value: Any) -> Any:
    if type_name(value) not in ("int", "double"):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return -value if isinstance(value, float) else _checked_int(-value)


def invert(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return not value


def contained(item: Any, container: Any) -> bool:
    if isinstance(container, Mapping):
        return item in container
    if isinstance(container, list | tuple):
        return any(equal(item, each) for each in container)
    raise EvaluationError(NO_SUCH_OVERLOAD)


def _ordered(accept: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: accept(compare(left, right))


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": invert,
    "@in": contained,
    "_==_": equal,
    "_!=_": lambda left, right: not equal(left, right),
    "_<_": _ordered(lambda order: order == -1),
    "_<=_": _ordered(lambda order: order in (-1, 0)),
    "_>_": _ordered(lambda order: order == 1),
    "_>=_": _ordered(lambda order: order in (0, 1)),
}


def _conversion_error(value: Any, to: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{to}'")


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+", value):
            raise _conversion_error(value, "int")
        return _checked_int(int(value))
    return _checked_int(int(value))


def _to_uint(value: Any) -> UInt:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+", value):
            raise _conversion_error(value, "uint")
        return _checked_uint(int(value))
    return _checked_uint(int(value))


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _conversion_error(value, "double") from None


def _to_bool(value: str) -> bool:
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise _conversion_error(value, "bool")


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, timedelta):
        return repr(value.total_seconds()).removesuffix(".0") + "s"
    return str(value)


_DURATION_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _to_duration(text: str) -> timedelta:
    if not re.fullmatch(r"[+-]?([0-9]*\.?[0-9]+(h|ms|us|µs|ns|m|s))+", text):
        raise _conversion_error(text, "google.protobuf.Duration")
    parts = re.findall(r"([0-9]*\.?[0-9]+)(h|ms|us|µs|ns|m|s)", text)
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)
    return timedelta(seconds=-seconds if text[0] == "-" else seconds)


@cache
def regular_expression(pattern: str) -> Any:
    """`pattern` as RE2 compiles it; raises ValueError."""
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        raise ValueError(str(error)) from None


def _regex(pattern: str) -> Any:
    try:
        return regular_expression(pattern)
    except ValueError as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in _regex(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    found = _regex(pattern).search(text)
    return str(found.group(0)) if found else ""


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise EvaluationError(f"index out of range: {position}")
    return text[position : position + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, *(() if end is None else (end,))):
        if not 0 <= position <= len(text):
            raise EvaluationError(f"index out of range: {position}")
    return text[start:end]


def _lower_ascii(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)


def _upper_ascii(text: str) -> str:
    return "".join(char.upper() if char.isascii() else char for char in text)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator == "":
        parts = list(text)
        return (
            parts if limit < 0 or limit >= len(parts) else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
        )
    return text.split(separator, -1 if limit < 0 else limit - 1)


def _index_of(items: list[Any], item: Any) -> int:
    return next((i for i, each in enumerate(items) if equal(each, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if equal(items[i], item)), -1)


def _extreme(items: list[Any], name: str, sign: int) -> Any:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    return max(items, key=cmp_to_key(lambda left, right: sign * compare(left, right)))


def _sum(items: list[Any]) -> Any:
    total = items[0] if items else 0
    for item in items[1:]:
        total = add(total, item)
    return total


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(left, right) <= 0 for left, right in pairwise(items))


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if _index_of(kept, item) < 0:
            kept.append(item)
    return kept


def _flatten(items: list[Any]) -> list[Any]:
    return [inner for item in items for inner in (item if isinstance(item, list | tuple) else (item,))]


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _join(items: list[Any], separator: str = "") -> str:
    if not all(isinstance(item, str) for item in items):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return separator.join(items)


def _sets_contains(items: list[Any], subset: list[Any]) -> bool:
    return all(contained(item, items) for item in subset)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


STANDARD: tuple[Overload, ...] = (
    *(overload(f"size({kind}) int", len) for kind in ("string", "bytes", "list", "map")),
    *(overload(f"{kind}.size() int", len) for kind in ("string", "bytes", "list", "map")),
    overload("string.contains(string) bool", lambda text, part: part in text),
    overload("string.startsWith(string) bool", str.startswith),
    overload("string.endsWith(string) bool", str.endswith),
    overload("string.matches(string) bool", lambda text, regex: _regex(regex).search(text) is not None),
    overload("matches(string,string) bool", lambda text, regex: _regex(regex).search(text) is not None),
    overload("type(dyn) type", lambda value: Type(type_name(value))),
    overload("dyn(dyn) dyn", lambda value: value),
    *(overload(f"int({kind}) int", _to_int) for kind in ("int", "uint", "double", "string")),
    *(overload(f"uint({kind}) uint", _to_uint) for kind in ("int", "uint", "double", "string")),
    *(overload(f"double({kind}) double", _to_double) for kind in ("int", "uint", "double", "string")),
    *(
        overload(f"string({kind}) string", _to_string)
        for kind in ("string", "int", "uint", "double", "bool", "bytes", "google.protobuf.Duration")
    ),
    overload("bool(bool) bool", lambda value: value),
    overload("bool(string) bool", _to_bool),
    overload("bytes(string) bytes", str.encode),
    overload("duration(string) google.protobuf.Duration", _to_duration),
)

STRINGS: tuple[Overload, ...] = (
    overload("string.charAt(int) string", _char_at),
    overload("string.indexOf(string) int", str.find),
    overload("string.indexOf(string,int) int", str.find),
    overload("string.lastIndexOf(string) int", str.rfind),
    overload("string.lowerAscii() string", _lower_ascii),
    overload("string.upperAscii() string", _upper_ascii),
    overload("string.replace(string,string) string", str.replace),
    overload("string.replace(string,string,int) string", str.replace),
    overload("string.split(string) list", _split),
    overload("string.split(string,int) list", _split),
    overload("string.substring(int) string", _substring),
    overload("string.substring(int,int) string", _substring),
    overload("string.trim() string", str.strip),
    overload("string.find(string) string", _find),
    overload("string.findAll(string) list", _find_all),
    overload("string.findAll(string,int) list", _find_all),
    overload("list.join() string", _join),
    overload("list.join(string) string", _join),
)

LISTS: tuple[Overload, ...] = (
    overload("list.isSorted() bool", _is_sorted),
    overload("list.sum() dyn", _sum),
    overload("list.min() dyn", lambda items: _extreme(items, "min", -1)),
    overload("list.max() dyn", lambda items: _extreme(items, "max", 1)),
    overload("list.indexOf(dyn) int", _index_of),
    overload("list.lastIndexOf(dyn) int", _last_index_of),
    overload("list.distinct() list", _distinct),
    overload("list.reverse() list", lambda items: items[::-1]),
    overload("list.flatten() list", _flatten),
    overload("list.slice(int,int) list", _slice),
    overload("lists.range(int) list", lambda end: list(range(end))),
    overload("sets.contains(list,list) bool", _sets_contains),
    overload(
        "sets.equivalent(list,list) bool",
        lambda left, right: _sets_contains(left, right) and _sets_contains(right, left),
    ),
    overload("sets.intersects(list,list) bool", lambda left, right: any(contained(x, right) for x in left)),
)

OPTIONALS: tuple[Overload, ...] = (
    overload("optional.none() optional_type", lambda: NONE),
    overload("optional.of(dyn) optional_type", lambda value: Optional(value, True)),
    overload(
        "optional.ofNonZeroValue(dyn) optional_type", lambda value: Optional(value, True) if value else NONE
    ),
    overload("optional_type.hasValue() bool", lambda optional: optional.present),
    overload("optional_type.value() dyn", _value),
    overload("optional_type.orValue(dyn) dyn", lambda opt, other: opt.value if opt.present else other),
    overload(
        "optional_type.or(optional_type) optional_type", lambda opt, other: opt if opt.present else other
    ),
)

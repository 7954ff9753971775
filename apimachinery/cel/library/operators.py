"""Operators of the CEL standard library.

Each is one function for all types (a singleton in cel-go's words). The error names the operator if the left
operand has no such operation; if only the right operand does not fit, it does not.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    UInt,
    compare,
    equal,
    is_number,
    type_name,
)


def checked_int(value: int, what: str = "integer overflow") -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError(what)
    return value


def checked_uint(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def checked_timestamp(value: Timestamp) -> Timestamp:
    if not value.in_range:
        raise EvaluationError("timestamp overflow")
    return value


def _shifted(at: Timestamp, nanos: int) -> Timestamp:
    return checked_timestamp(Timestamp(at.nanos + nanos, at.offset))


def _mismatch(left: Any, name: str, able: frozenset[str]) -> EvaluationError:
    kind = type_name(left)
    return EvaluationError(NO_SUCH_OVERLOAD if kind in able else f"{NO_SUCH_OVERLOAD}: {name}")


_ADDABLE = frozenset(
    {
        "bytes",
        "double",
        "google.protobuf.Duration",
        "int",
        "list",
        "string",
        "google.protobuf.Timestamp",
        "uint",
    }
)
_SUBTRACTABLE = _ADDABLE - {"bytes", "list", "string"}
_NUMBERS = frozenset({"int", "uint", "double"})


def _number(left: Any, right: Any) -> Callable[[Any], Any] | None:
    """Returns the constructor of an arithmetic result; None unless both operands are of one numeric type."""
    if left.__class__ is not right.__class__:
        return None
    return _MAKERS.get(left.__class__)


_MAKERS: Mapping[type, Callable[[Any], Any]] = {int: checked_int, UInt: checked_uint, float: float}


def add(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is not None:
        return make(left + right)
    if (isinstance(left, str) and isinstance(right, str)) or (
        isinstance(left, bytes) and isinstance(right, bytes)
    ):
        return operator.add(left, right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        extend = getattr(left, "extended", None)
        return extend(right) if extend is not None else [*left, *right]
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return _shifted(left, right.nanos)
    if isinstance(left, Duration) and isinstance(right, Timestamp):
        return _shifted(right, left.nanos)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(checked_int(left.nanos + right.nanos))
    raise _mismatch(left, "_+_", _ADDABLE)


def subtract(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is not None:
        return make(left - right)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return _shifted(left, checked_int(-right.nanos))
    if isinstance(left, Duration | Timestamp) and isinstance(right, type(left)):
        return Duration(checked_int(left.nanos - right.nanos))
    raise _mismatch(left, "_-_", _SUBTRACTABLE)


def multiply(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is None:
        raise _mismatch(left, "_*_", _NUMBERS)
    return make(left * right)


def divide(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is None:
        raise _mismatch(left, "_/_", _NUMBERS)
    if isinstance(left, float):
        if right == 0:
            negative = str(right).startswith("-")
            return float("nan") if left == 0 or left != left else left * float("-inf" if negative else "inf")
        return left / right
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return make(quotient if (left < 0) == (right < 0) else -quotient)


def modulo(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is None or isinstance(left, float):
        raise _mismatch(left, "_%_", _NUMBERS - {"double"})
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return make(-remainder if left < 0 else remainder)


def negate(value: Any) -> Any:
    if value.__class__ is int:
        return checked_int(-value)
    if isinstance(value, float):
        return -value
    if isinstance(value, Duration):
        return Duration(checked_int(-value.nanos))
    raise EvaluationError(NO_SUCH_OVERLOAD if isinstance(value, bool) else f"{NO_SUCH_OVERLOAD}: -_")


def invert(value: Any) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    able = is_number(value) or isinstance(value, Duration)
    raise EvaluationError(NO_SUCH_OVERLOAD if able else f"{NO_SUCH_OVERLOAD}: !_")


def contained(item: Any, container: Any) -> bool:
    if isinstance(container, Mapping):
        try:
            return item in container
        except TypeError:
            return False
    if isinstance(container, list | tuple):
        return any(equal(item, element) for element in container)
    raise EvaluationError(NO_SUCH_OVERLOAD)


_COMPARABLE = frozenset({"bool", "bytes", "double", "int", "string", "uint"}) | {
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
}


def _ordered(name: str, accept: frozenset[int]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        try:
            return compare(left, right) in accept
        except EvaluationError:
            raise _mismatch(left, name, _COMPARABLE) from None

    return ordered


def _unequal(left: Any, right: Any) -> bool:
    return not equal(left, right)


def _index(_container: Any, _key: Any) -> Any:
    """Gives the types of `_[_]` alone: the interpreter compiles it, because it may be optional."""
    raise AssertionError("indexing is compiled, not called")


def _truth(_left: Any, _right: Any) -> bool:
    """Gives the types of `&&` and `||` alone: the interpreter compiles them, because both sides must not
    be computed first."""
    raise AssertionError("logic is compiled, not called")


def _operator(name: str, function: Callable[..., Any], rows: str) -> list[Overload]:
    """Returns the overloads that `rows` list, each as `ID PARAMETERS -> RESULT` with blanks between
    parameters."""
    made = []
    for line in rows.strip().splitlines():
        left, _, result = line.partition("->")
        identity, *parameters = left.split()
        signature = f"{name}({','.join(parameters)}) {result.strip()}"
        made.append(overload(signature, function, identity, loose=True))
    return made


_ARITHMETIC = """{0}_double double double -> double
{0}_int64 int int -> int
{0}_uint64 uint uint -> uint"""


def _comparison(word: str, order: list[str]) -> str:
    """Returns the overloads of a comparison; numbers compare across types."""
    rows = []
    for kind in order:
        rows.append(f"{word}_{_IDS.get(kind, kind)} {kind} {kind} -> bool")
        rows += [
            f"{word}_{_IDS[kind]}_{_IDS[other]} {kind} {other} -> bool"
            for other in ("int", "uint", "double")
            if kind in _IDS and other != kind
        ]
    return "\n".join(rows)


_IDS = {"int": "int64", "uint": "uint64", "double": "double"}
_ORDER = ["bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"]

OPERATORS: tuple[Overload, ...] = (
    *_operator("_?_:_", _truth, "conditional bool T T -> T"),
    *_operator("_&&_", _truth, "logical_and bool bool -> bool"),
    *_operator("_||_", _truth, "logical_or bool bool -> bool"),
    *_operator("!_", invert, "logical_not bool -> bool"),
    *_operator("@not_strictly_false", _truth, "not_strictly_false bool -> bool"),
    *_operator("_==_", equal, "equals T T -> bool"),
    *_operator("_!=_", _unequal, "not_equals T T -> bool"),
    *_operator(
        "_+_",
        add,
        """add_bytes bytes bytes -> bytes
        add_double double double -> double
        add_duration_duration duration duration -> duration
        add_duration_timestamp duration timestamp -> timestamp
        add_timestamp_duration timestamp duration -> timestamp
        add_int64 int int -> int
        add_list list(T) list(T) -> list(T)
        add_string string string -> string
        add_uint64 uint uint -> uint""",
    ),
    *_operator("_/_", divide, _ARITHMETIC.format("divide")),
    *_operator("_%_", modulo, "modulo_int64 int int -> int\nmodulo_uint64 uint uint -> uint"),
    *_operator("_*_", multiply, _ARITHMETIC.format("multiply")),
    *_operator("-_", negate, "negate_double double -> double\nnegate_int64 int -> int"),
    *_operator(
        "_-_",
        subtract,
        _ARITHMETIC.format("subtract")
        + """
        subtract_duration_duration duration duration -> duration
        subtract_timestamp_duration timestamp duration -> timestamp
        subtract_timestamp_timestamp timestamp timestamp -> duration""",
    ),
    *_operator("_<_", _ordered("_<_", frozenset({-1})), _comparison("less", _ORDER)),
    *_operator("_<=_", _ordered("_<=_", frozenset({-1, 0})), _comparison("less_equals", _ORDER)),
    *_operator("_>_", _ordered("_>_", frozenset({1})), _comparison("greater", _ORDER)),
    *_operator("_>=_", _ordered("_>=_", frozenset({0, 1})), _comparison("greater_equals", _ORDER)),
    *_operator("_[_]", _index, "index_list list(T) int -> T\nindex_map map(K,V) K -> V"),
    *_operator("@in", contained, "in_list T list(T) -> bool\nin_map K map(K,V) -> bool"),
)
OPTIONAL_OPERATORS: tuple[Overload, ...] = (
    *_operator(
        "_[?_]",
        _index,
        """list_optindex_optional_int list(T) int -> optional(T)
        optional_list_optindex_optional_int optional(list(T)) int -> optional(T)
        map_optindex_optional_value map(K,V) K -> optional(V)
        optional_map_optindex_optional_value optional(map(K,V)) K -> optional(V)""",
    ),
    *_operator(
        "_[_]",
        _index,
        """optional_list_index_int optional(list(T)) int -> optional(T)
        optional_map_index_value optional(map(K,V)) K -> optional(V)""",
    ),
)

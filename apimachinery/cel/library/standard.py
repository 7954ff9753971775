"""The CEL standard library: operators, functions and conversions, durations and timestamps.

Each operator is one function for all types (a singleton in cel-go's words). The error names the operator if
the left operand has no operation of that name; if only the right operand does not fit, it does not.

Sources: github.com/google/cel-go/common/stdlib and common/types, as of Kubernetes 1.36; Go's time package.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.library.patterns import compiled
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.times import (
    SECOND,
    Duration,
    Local,
    Timestamp,
    duration,
    duration_text,
    timestamp,
    timestamp_text,
)
from kubeskew.apimachinery.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    TypeValue,
    UInt,
    compare,
    equal,
    is_among,
    same,
    type_name,
)
from kubeskew.apimachinery.go_formats import quoted

# Days away from where Python's calendar ends: zones have not changed there.
_FIRST_ZONED, _LAST_ZONED = -62_135_000_000, 253_402_000_000


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


# Values of these types have functions of their own, and are asked for one before the operator fails.
_RECEIVERS = frozenset({"string", "google.protobuf.Duration", "google.protobuf.Timestamp"})


def mismatch(left: Any, name: str, able: frozenset[str]) -> EvaluationError:
    """The error of an operator of `able` types on another one."""
    known = type_name(left) in able | _RECEIVERS
    return EvaluationError(NO_SUCH_OVERLOAD if known else f"{NO_SUCH_OVERLOAD}: {name}")


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
_NEGATABLE = frozenset({"bool", "int", "double"})


def _number(left: Any, right: Any) -> Callable[[Any], Any] | None:
    """The constructor of an arithmetic result; None unless both operands are of one numeric type."""
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
    raise mismatch(left, "_+_", _ADDABLE)


def subtract(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is not None:
        return make(left - right)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return _shifted(left, checked_int(-right.nanos))
    if isinstance(left, Duration | Timestamp) and isinstance(right, type(left)):
        return Duration(checked_int(left.nanos - right.nanos))
    raise mismatch(left, "_-_", _SUBTRACTABLE)


def multiply(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is None:
        raise mismatch(left, "_*_", _NUMBERS)
    return make(left * right)


def divide(left: Any, right: Any) -> Any:
    make = _number(left, right)
    if make is None:
        raise mismatch(left, "_/_", _NUMBERS)
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
        raise mismatch(left, "_%_", _NUMBERS - {"double"})
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
    raise mismatch(value, "-_", _NEGATABLE)


def invert(value: Any) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    raise EvaluationError(NO_SUCH_OVERLOAD)


def contained(item: Any, container: Any) -> bool:
    if isinstance(container, Mapping):
        try:
            return item in container and is_among(container, item)
        except TypeError:
            return False
    if isinstance(container, list | tuple):
        return any(same(item, element) for element in container)
    raise EvaluationError(NO_SUCH_OVERLOAD)


_COMPARABLE = frozenset({"bool", "bytes", "double", "int", "string", "uint"}) | {
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
}


def _ordered(name: str, accept: frozenset[int]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        try:
            order = 2 if isinstance(left, float) and math.isnan(left) else compare(left, right)
        except EvaluationError:
            raise mismatch(left, name, _COMPARABLE) from None
        if order == 2:
            raise EvaluationError("NaN values cannot be ordered")
        return order in accept

    return ordered


def _unequal(left: Any, right: Any) -> bool:
    return not same(left, right)


def _index(_container: Any, _key: Any) -> Any:
    """Declares the types of `_[_]` alone: the interpreter compiles it, because it may be optional."""
    raise AssertionError("indexing is compiled, not called")


def _truth(_left: Any, _right: Any) -> bool:
    """Declares the types of `&&` and `||` alone: the interpreter compiles them, because both sides must not
    be computed first."""
    raise AssertionError("logic is compiled, not called")


def _operator(name: str, function: Callable[..., Any], rows: str) -> list[Overload]:
    """Parses `rows`, each `ID PARAMETERS -> RESULT` with blanks between parameters."""
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
    """Rows for `_operator`; numbers compare across types."""
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


def _whole_number(text: str) -> int:
    """Reads a number as Go's strconv.Atoi; raises EvaluationError."""
    failure = f"strconv.Atoi: parsing {quoted(text)}: "
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise EvaluationError(failure + "invalid syntax")
    if not INT_MIN <= int(text) <= INT_MAX:
        raise EvaluationError(failure + "value out of range")
    return int(text)


def _offset(zone: str, at: Timestamp) -> int:
    """The distance of a zone from UTC at a time, in seconds; raises EvaluationError."""
    if ":" in zone:
        hours, _, minutes = zone.partition(":")
        count, more = _whole_number(hours), _whole_number(minutes)
        return 60 * (count * 60 + (-more if zone[0] == "-" else more))
    if zone in ("", "UTC", "Local"):
        return 0
    if "\0" in zone:
        raise EvaluationError("invalid argument")
    if ".." in zone or zone[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    try:
        found = ZoneInfo(zone)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    seconds = min(max(at.nanos // SECOND, _FIRST_ZONED), _LAST_ZONED)
    distance = datetime.fromtimestamp(seconds, found).utcoffset()
    return 0 if distance is None else distance.days * 86_400 + distance.seconds


_FIELDS: dict[str, Callable[[Local], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.clock.month - 1,
    "getDayOfYear": lambda at: at.clock.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.clock.day - 1,
    "getDate": lambda at: at.clock.day,
    "getDayOfWeek": lambda at: at.clock.isoweekday() % 7,
    "getHours": lambda at: at.clock.hour,
    "getMinutes": lambda at: at.clock.minute,
    "getSeconds": lambda at: at.clock.second,
    "getMilliseconds": lambda at: at.nanos // 1_000_000,
}
_UNITS = {
    "getHours": 3600 * SECOND,
    "getMinutes": 60 * SECOND,
    "getSeconds": SECOND,
    "getMilliseconds": SECOND // 1000,
}


def _whole_units(unit: int) -> Callable[[Duration], int]:
    def count(span: Duration) -> int:
        whole = abs(span.nanos) // unit
        return -whole if span.nanos < 0 else whole

    return count


def _local(field: Callable[[Local], int]) -> Callable[..., int]:
    def get(at: Timestamp, zone: str = "UTC") -> int:
        return field(at.local(_offset(zone, at)))

    return get


def _text_conversion_error(to: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to 'google.protobuf.{to}'")


def to_duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, int):  # declared, and never converted
        raise _conversion_error(value, "google.protobuf.Duration")
    if not isinstance(value, str):
        raise EvaluationError(f"{NO_SUCH_OVERLOAD}: duration({type_name(value)})")
    try:
        return duration(value)
    except ValueError:
        raise _text_conversion_error("Duration") from None


def to_timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return checked_timestamp(Timestamp(int(value) * SECOND))
    if not isinstance(value, str):
        raise EvaluationError(f"{NO_SUCH_OVERLOAD}: timestamp({type_name(value)})")
    try:
        return checked_timestamp(timestamp(value))
    except ValueError:
        raise _text_conversion_error("Timestamp") from None


TEMPORAL: tuple[Overload, ...] = (
    *(overload(f"duration({kind}) duration", to_duration) for kind in ("duration", "int", "string")),
    *(overload(f"timestamp({kind}) timestamp", to_timestamp) for kind in ("timestamp", "int", "string")),
    *(overload(f"timestamp.{name}() int", _local(field)) for name, field in _FIELDS.items()),
    *(overload(f"timestamp.{name}(string) int", _local(field)) for name, field in _FIELDS.items()),
    *(overload(f"duration.{name}() int", _whole_units(unit)) for name, unit in _UNITS.items()),
)


def size(value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        raise mismatch(value, "size", frozenset()) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return value


def _contains(text: Any, part: Any) -> bool:
    return _text(part) in _text(text)


def _starts_with(text: Any, part: Any) -> bool:
    return _text(text).startswith(_text(part))


def _ends_with(text: Any, part: Any) -> bool:
    return _text(text).endswith(_text(part))


def _matches(text: Any, pattern: Any) -> bool:
    return compiled(_text(pattern)).search(_text(text)) is not None


def _conversion_error(value: Any, to: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{to}'")


def _whole(value: float, lowest: float, highest: float, what: str) -> int:
    if math.isnan(value) or not lowest < value < highest:
        raise EvaluationError(what)
    return int(value)


def to_int(value: Any) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+", value) or not -(2**63) <= int(value) < 2**63:
            raise _conversion_error(value, "int")
        return int(value)
    if isinstance(value, float):
        return _whole(value, -(2.0**63), 2.0**63, "integer overflow")
    if isinstance(value, Duration):
        return value.nanos
    if isinstance(value, Timestamp):
        return value.nanos // SECOND
    return checked_int(int(value))


def to_uint(value: Any) -> UInt:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+", value) or int(value) >= 2**64:
            raise _conversion_error(value, "uint")
        return UInt(value)
    if isinstance(value, float):
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return UInt(_whole(value, -1.0, 2.0**64, "unsigned integer overflow"))
    return checked_uint(int(value))


_DECIMAL = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_HEXADECIMAL = re.compile(
    r"[+-]?0x(?:[0-9a-f]++\.?[0-9a-f]*+|\.[0-9a-f]++)p[+-]?[0-9]++", re.IGNORECASE | re.ASCII
)
_MISPLACED = re.compile(r"(?<![0-9a-fx])_|_(?![0-9a-f])", re.IGNORECASE | re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)


def _parsed_double(text: str) -> float | None:
    """Reads a number as Go's strconv.ParseFloat; None for what is none, or out of range."""
    if _INFINITE.fullmatch(text):
        return float(text)
    if _MISPLACED.search(text):
        return None
    text = text.replace("_", "")
    try:
        if _HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
    except OverflowError:
        return None
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return None if math.isinf(number) else number


def to_double(value: Any) -> float:
    if isinstance(value, str):
        number = _parsed_double(value)
        if number is None:
            raise _conversion_error(value, "double")
        return number
    return float(value)


def to_bool(value: str | bool) -> bool:
    if value in (True, "1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in (False, "0", "f", "F", "false", "FALSE", "False"):
        return False
    raise _conversion_error(value, "bool")


def double_text(value: float) -> str:
    """Go's `%g` of a number: the shortest form, with an exponent from a million on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = int(exponent) + len(digits) - 1
    if -4 <= power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    return str(value)


_SIZED = {"string": "string", "bytes": "bytes", "list": "list(T)", "map": "map(K,V)"}

STANDARD: tuple[Overload, ...] = (
    *OPERATORS,
    *(overload(f"size({kind}) int", size, f"size_{name}", loose=True) for name, kind in _SIZED.items()),
    *(overload(f"{kind}.size() int", size, f"{name}_size", loose=True) for name, kind in _SIZED.items()),
    overload("string.contains(string) bool", _contains, "contains_string", loose=True),
    overload("string.startsWith(string) bool", _starts_with, "starts_with_string", loose=True),
    overload("string.endsWith(string) bool", _ends_with, "ends_with_string", loose=True),
    overload("matches(string,string) bool", _matches, "matches", loose=True),
    overload("string.matches(string) bool", _matches, "matches_string", loose=True),
    overload("type(T) type(T)", lambda value: TypeValue(type_name(value)), loose=True),
    overload("dyn(T) dyn", lambda value: value, loose=True),
    *(
        overload(f"int({kind}) int", to_int)
        for kind in ("int", "double", "duration", "string", "timestamp", "uint")
    ),
    *(overload(f"uint({kind}) uint", to_uint) for kind in ("uint", "double", "int", "string")),
    *(overload(f"double({kind}) double", to_double) for kind in ("double", "int", "string", "uint")),
    *(
        overload(f"string({kind}) string", to_string, "bytes_to_string" if kind == "bytes" else "")
        for kind in ("string", "bool", "bytes", "double", "duration", "int", "timestamp", "uint")
    ),
    overload("bool(bool) bool", to_bool),
    overload("bool(string) bool", to_bool),
    overload("bytes(bytes) bytes", lambda value: value),
    overload("bytes(string) bytes", str.encode, "string_to_bytes"),
    *TEMPORAL,
)

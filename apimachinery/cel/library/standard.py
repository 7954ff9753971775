"""Functions and conversions of the CEL standard library.

Source: github.com/google/cel-go/common/stdlib and common/types, as of Kubernetes 1.36.
"""

import math
import re
from decimal import Decimal
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.library.operators import OPERATORS, checked_int, checked_uint
from kubeskew.apimachinery.cel.library.regular import compiled
from kubeskew.apimachinery.cel.library.temporal import TEMPORAL
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.times import SECOND, Duration, Timestamp, duration_text, timestamp_text
from kubeskew.apimachinery.cel.values import TypeValue, UInt, type_name


def size(value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        raise EvaluationError(f"{NO_SUCH_OVERLOAD}: size") from None


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
        return UInt(_whole(value, -1.0, 2.0**64, "unsigned integer overflow"))
    return checked_uint(int(value))


def to_double(value: Any) -> float:
    if isinstance(value, str):
        if not re.fullmatch(
            r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|nan)", value, re.I
        ):
            raise _conversion_error(value, "double")
        return float(value)
    return float(value)


def to_bool(value: str | bool) -> bool:
    if value in (True, "1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in (False, "0", "f", "F", "false", "FALSE", "False"):
        return False
    raise _conversion_error(value, "bool")


def double_text(value: float) -> str:
    """Returns the number as Go's `%g` writes it: the shortest form, with an exponent from a million on."""
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

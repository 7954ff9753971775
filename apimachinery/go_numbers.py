"""Numbers as Go's strconv reads and fmt writes them."""

import math
import re
from decimal import Decimal
from typing import Any

from kubeskew.apimachinery.go_text import quoted

_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_EXPONENT_FROM = 6  # a power of ten
_MAX_DIGITS = 20  # without leading zeroes; Python refuses much longer ones


def parse_int(text: str) -> int:
    """Parses a number as `strconv.ParseInt(text, 10, 64)`; raises ValueError with its text."""
    return _parse("ParseInt", _SIGNED, text, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """Parses a number as `strconv.ParseUint(text, 10, 64)`; raises ValueError with its text."""
    return _parse("ParseUint", _UNSIGNED, text, 0, 2**64 - 1)


def _parse(function: str, pattern: re.Pattern[str], text: str, least: int, most: int) -> int:
    if pattern.fullmatch(text) is None:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")
    sign = "-" if text[0] == "-" else ""
    digits = text.lstrip("+-").lstrip("0") or "0"
    value = int(sign + digits) if len(digits) <= _MAX_DIGITS else most + 1
    if not least <= value <= most:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")
    return value


def float_text(value: float) -> str:
    """Formats a number as `%v`: 1000000.0 is `1e+06`, 0.1 is `0.1`, 3.0 is `3`."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if value == 0:
        return "0" if math.copysign(1, value) > 0 else "-0"
    shortest = Decimal(repr(value)).normalize()
    digits, power = "".join(map(str, shortest.as_tuple().digits)), shortest.adjusted()
    sign = "-" if value < 0 else ""
    if power < -4 or power >= _EXPONENT_FROM:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    whole = digits[: power + 1].ljust(power + 1, "0")
    rest = digits[power + 1 :]
    return f"{sign}{whole}" + (f".{rest}" if rest else "")


def as_written(value: Any) -> Any:
    """Returns a copy of any JSON with numbers as Go writes them again: `3.0` is `3`."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_written(item) for item in value]
    return number(value) if isinstance(value, float | int) and not isinstance(value, bool) else value


def number(value: float) -> float:
    """Returns a number as Go holds and writes it: 64 bits, and whole floats without a fraction."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(value)
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64:
        return int(Decimal(repr(value)))  # the shortest digits that mean the same, and zeros
    return value

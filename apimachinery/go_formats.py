"""Numbers, durations and texts as Go reads and writes them.

Numbers are read as by strconv and written as by fmt; durations are `1h2m`, `-1.5s`, `0`; texts are written as
in Go's messages.
"""

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_SHORT = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    '"': '\\"', "\\": "\\\\",
}  # fmt: skip
_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_EXPONENT_FROM = 6  # a power of ten
_MAX_DIGITS = 20  # without leading zeroes; Python refuses much longer ones
_PART = re.compile(r"([0-9]*+(?:\.[0-9]*+)?)([^.0-9]*+)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST = 2**63 / 1e9  # seconds that 64 bits of nanoseconds hold
SECOND = 1_000_000_000  # nanoseconds
_WRITTEN = ((SECOND, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def quoted(text: str) -> str:
    """Quotes as `strconv.Quote` (%q) does: characters that cannot be printed are escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    number = ord(char)
    if number < 0x80:
        return f"\\x{number:02x}"
    if 0xD800 <= number < 0xE000:  # a surrogate
        return "\\ufffd"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


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
    """Copies any JSON, with numbers as Go writes them again: `3.0` is `3`."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_written(item) for item in value]
    return number(value) if isinstance(value, float | int) and not isinstance(value, bool) else value


def number(value: float) -> float:
    """Go holds 64 bits, and writes whole floats without a fraction."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(value)
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64:
        return int(Decimal(repr(value)))  # the shortest digits that mean the same, and zeros
    return value


def parse_duration(text: str) -> float:
    """Seconds of Go's duration; raises ValueError with Go's text."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0.0
    shown = json.dumps(text, ensure_ascii=False)
    total, position = 0.0, 0
    while position < len(unsigned) or not unsigned:
        found = _PART.match(unsigned, position)
        if found is None or not found[1].strip("."):
            raise ValueError(f"time: invalid duration {shown}")
        if not found[2]:
            raise ValueError(f"time: missing unit in duration {shown}")
        if found[2] not in _UNITS:
            unit = json.dumps(found[2], ensure_ascii=False)
            raise ValueError(f"time: unknown unit {unit} in duration {shown}")
        total += float(found[1]) * _UNITS[found[2]]
        if total > _MOST:
            raise ValueError(f"time: invalid duration {shown}")
        position = found.end()
    return -total if text[0] == "-" else total


def duration_text(nanos: int) -> str:
    """Go's print of a duration: `1h2m3.5s`, `100ms`, `0s`."""
    sign, size = ("-" if nanos < 0 else ""), abs(nanos)
    if size < SECOND:
        unit, name = next((pair for pair in _WRITTEN if size >= pair[0]), _WRITTEN[0])
        return f"{sign}{_decimal(size, unit)}{name}"
    minutes, rest = divmod(size, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest, SECOND)}s"


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    digits = str(unit + rest)[1:].rstrip("0") if unit > 1 else ""
    return f"{whole}.{digits}" if digits else str(whole)


def label_selector_text(selector: Mapping[str, Any]) -> str:
    """The form is that of the Go type's generated stringer (meta/v1/generated.pb.go, 1.36)."""
    pairs = sorted((selector.get("matchLabels") or {}).items())
    labels = "".join(f"{key}: {value}," for key, value in pairs)
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{expression.get('key', '')},"
        f"Operator:{expression.get('operator', '')},"
        f"Values:[{' '.join(expression.get('values') or ())}],}},"
        for expression in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )

"""Durations and timestamps: reading, writing and taking them apart.

Source: Go's time package and github.com/google/cel-go/common/types. Both have microseconds here,
nanoseconds upstream.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apimachinery.cel.errors import EvaluationError
from apimachinery.cel.operators import checked_duration, checked_timestamp
from apimachinery.cel.overloads import Overload, overload

_UNITS = {
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1000,
    "us": 1,
    "µs": 1,
    "μs": 1,
    "ns": 0.001,
}
_PART = re.compile(r"([0-9]++\.?[0-9]*+|\.[0-9]++)(h|ms|us|µs|μs|ns|m|s)")
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)")
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)")
_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d\d)")


def duration(text: str) -> timedelta:
    """Go's `time.ParseDuration`; raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'time: invalid duration "{text}"')
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    value = timedelta(microseconds=total)
    return -value if text[0] == "-" else value


def duration_text(value: timedelta) -> str:
    """In seconds, as CEL's `string` has it."""
    micros = value // timedelta(microseconds=1)
    whole, rest = divmod(abs(micros), 1_000_000)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{'-' if micros < 0 else ''}{whole}{fraction}s"


def timestamp(text: str) -> datetime:
    """RFC 3339; raises ValueError."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(f'parsing time "{text}"')
    *numbers, fraction, zone = found.groups()
    micros = int(((fraction or "") + "000000")[:6])
    offset = UTC if zone in "Zz" else _fixed(zone)
    year, month, day, hour, minute, second = map(int, numbers)
    return datetime(year, month, day, hour, minute, second, micros, tzinfo=offset).astimezone(UTC)


def timestamp_text(value: datetime) -> str:
    value = value.astimezone(UTC)
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    return f"{value.year:04}-{value.month:02}-{value.day:02}T{value:%H:%M:%S}{fraction}Z"


def _fixed(zone: str) -> tzinfo:
    found = _OFFSET.fullmatch(zone)
    if found is None:
        raise ValueError(f"unknown time zone {zone}")
    sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def _zone(name: str) -> tzinfo:
    try:
        return _fixed(name) if ":" in name else ZoneInfo(name or "UTC")
    except (ValueError, ZoneInfoNotFoundError, IsADirectoryError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


_FIELDS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_PARTS: dict[str, Callable[[timedelta], int]] = {
    "getHours": lambda span: _truncated(span, timedelta(hours=1)),
    "getMinutes": lambda span: _truncated(span, timedelta(minutes=1)),
    "getSeconds": lambda span: _truncated(span, timedelta(seconds=1)),
    "getMilliseconds": lambda span: _truncated(span, timedelta(milliseconds=1)),
}


def _truncated(span: timedelta, unit: timedelta) -> int:
    whole = abs(span) // unit
    return -whole if span < timedelta() else whole


def _local(field: Callable[[datetime], int]) -> Callable[..., int]:
    def get(at: datetime, zone: str = "UTC") -> int:
        return field(at.astimezone(_zone(zone)))

    return get


def to_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int):
        return checked_duration(lambda: timedelta(microseconds=value / 1000))
    try:
        return duration(value)
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'") from None


def to_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int):
        return checked_timestamp(lambda: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value))
    try:
        return timestamp(value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


TEMPORAL: tuple[Overload, ...] = (
    *(overload(f"duration({kind}) duration", to_duration) for kind in ("duration", "int", "string")),
    *(overload(f"timestamp({kind}) timestamp", to_timestamp) for kind in ("timestamp", "int", "string")),
    *(overload(f"timestamp.{name}() int", _local(field)) for name, field in _FIELDS.items()),
    *(overload(f"timestamp.{name}(string) int", _local(field)) for name, field in _FIELDS.items()),
    *(overload(f"duration.{name}() int", part) for name, part in _PARTS.items()),
)

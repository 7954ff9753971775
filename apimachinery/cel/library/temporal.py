"""Durations and timestamps: the functions that make them and take them apart.

Source: Go's time package and github.com/google/cel-go/common/types, as of Kubernetes 1.36.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.operators import checked_timestamp
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.times import SECOND, Duration, Timestamp, duration, timestamp

_OFFSET = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})", re.ASCII)


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
_UNITS = {
    "getHours": 3600 * SECOND,
    "getMinutes": 60 * SECOND,
    "getSeconds": SECOND,
    "getMilliseconds": SECOND // 1000,
}


def _whole(unit: int) -> Callable[[Duration], int]:
    def count(span: Duration) -> int:
        whole = abs(span.nanos) // unit
        return -whole if span.nanos < 0 else whole

    return count


def _local(field: Callable[[datetime], int]) -> Callable[..., int]:
    def get(at: Timestamp, zone: str = "UTC") -> int:
        return field(at.clock().astimezone(_zone(zone)))

    return get


def _conversion_error(to: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to 'google.protobuf.{to}'")


def to_duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, int):
        return Duration(int(value))
    try:
        return duration(value)
    except ValueError:
        raise _conversion_error("Duration") from None


def to_timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return checked_timestamp(Timestamp(int(value) * SECOND))
    try:
        return checked_timestamp(timestamp(value))
    except ValueError:
        raise _conversion_error("Timestamp") from None


TEMPORAL: tuple[Overload, ...] = (
    *(overload(f"duration({kind}) duration", to_duration) for kind in ("duration", "int", "string")),
    *(overload(f"timestamp({kind}) timestamp", to_timestamp) for kind in ("timestamp", "int", "string")),
    *(overload(f"timestamp.{name}() int", _local(field)) for name, field in _FIELDS.items()),
    *(overload(f"timestamp.{name}(string) int", _local(field)) for name, field in _FIELDS.items()),
    *(overload(f"duration.{name}() int", _whole(unit)) for name, unit in _UNITS.items()),
)

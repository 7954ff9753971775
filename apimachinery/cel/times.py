"""Durations and timestamps as Go has them, to the nanosecond: reading and writing them.

Source: Go's time package, github.com/google/cel-go/common/types and kube-openapi's strfmt, as of
Kubernetes 1.36.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

SECOND = 1_000_000_000  # nanoseconds

_MINUTE, _HOUR, _DAY = 60 * SECOND, 3600 * SECOND, 24 * 3600 * SECOND
_LONGEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # seconds since the epoch: the years 1 to 9999
_FOUR_CENTURIES = 146_097 * 86_400  # seconds
_START = datetime(2001, 1, 1, tzinfo=UTC)  # the calendar repeats every four centuries

_UNITS = {
    "h": _HOUR,
    "m": _MINUTE,
    "s": SECOND,
    "ms": 1_000_000,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ns": 1,
}
_PART = r"(?:([0-9]++)(?:\.([0-9]*+))?|\.([0-9]++))(h|ms|us|µs|μs|ns|m|s)"
_PARTS, _DURATION = re.compile(_PART), re.compile(rf"[+-]?(?:0|(?:{_PART})+)")
_LOOSE_UNITS = (
    (1, ("ns", "nano")),
    (1000, ("us", "µs", "micro")),
    (1_000_000, ("ms", "milli")),
    (SECOND, ("s", "sec")),
    (_MINUTE, ("m", "min")),
    (_HOUR, ("h", "hr", "hour")),
    (_DAY, ("d", "day")),
    (7 * _DAY, ("w", "wk", "week")),
)
_LOOSE = re.compile(r"(?<![0-9])([0-9]++)\s*+([A-Za-zµ]+)", re.ASCII)
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of `nanos`, which 64 bits hold."""

    nanos: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """`nanos` since the epoch; `offset` is the distance from UTC in seconds in which it is written."""

    nanos: int
    offset: int = field(default=0, compare=False)

    @property
    def in_range(self) -> bool:
        """CEL knows the years 1 to 9999."""
        return _FIRST <= self.nanos // SECOND <= _LAST

    @property
    def is_zero(self) -> bool:
        """Go's zero time is the first instant of the year 1."""
        return self.nanos == _FIRST * SECOND

    def local(self, offset: int) -> "Local":
        """The date and time at a distance from UTC in seconds, also beyond the years that Python knows."""
        seconds, nanos = divmod(self.nanos + offset * SECOND, SECOND)
        cycles, rest = divmod(seconds - _FIRST, _FOUR_CENTURIES)
        clock = _START + timedelta(seconds=rest)
        return Local(clock.year - _START.year + 1 + 400 * cycles, clock, nanos)


@dataclass(frozen=True, slots=True)
class Local:
    """The date and time at one place; `clock` has a like year, and no part of a second."""

    year: int
    clock: datetime
    nanos: int


def duration(text: str) -> Duration:
    """Parses a duration as Go's `time.ParseDuration`; raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'time: invalid duration "{text}"')
    nanos = 0
    for whole, fraction, only, unit in _PARTS.findall(text):
        nanos += int(whole or 0) * _UNITS[unit] + _fraction(fraction or only, _UNITS[unit])
    negative = text[0] == "-"
    if nanos > _LONGEST + negative:
        raise ValueError(f'time: invalid duration "{text}"')
    return Duration(-nanos if negative else nanos)


def _fraction(digits: str, unit: int) -> int:
    """Go's floats lose a part of the fraction, and so does this."""
    while digits and int(digits) > _LONGEST:
        digits = digits[:-1]
    return int(float(digits) * (unit / 10 ** len(digits))) if digits else 0


def loose_duration(text: str) -> Duration:
    """Parses a duration in Go's spelling or in words (`1h2m`, `3 days`), as the format `duration` allows;
    raises ValueError."""
    try:
        return duration(text)
    except ValueError:
        known = [
            int(count) * nanos
            for count, word in _LOOSE.findall(text)
            for nanos, names in _LOOSE_UNITS
            if word.lower() in names or word.lower().startswith(names[-1])
        ]
    if not known:
        raise ValueError(f"unable to parse {text} as duration")
    return Duration((sum(known) + _LONGEST + 1) % (1 << 64) - _LONGEST - 1)


def duration_text(value: Duration) -> str:
    """In seconds, as CEL's `string` writes a duration."""
    whole, rest = divmod(abs(value.nanos), SECOND)
    number = float(whole) + rest / SECOND
    sign = "-" if value.nanos < 0 else ""
    return f"{sign}{Decimal(repr(number)).normalize():f}s"


def timestamp(text: str) -> Timestamp:
    """Parses RFC 3339 as Go does; raises ValueError."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(f'parsing time "{text}"')
    *numbers, fraction, sign, hours, minutes = found.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    offset = 0
    if sign is not None:
        if int(hours) > 24 or int(minutes) > 59:
            raise ValueError(f'parsing time "{text}": time zone offset out of range')
        offset = (int(hours) * 60 + int(minutes)) * (-60 if sign == "-" else 60)
    # Python has no year 0. It has the same length as every year divisible by 400.
    clock = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    seconds = (clock - _EPOCH) // timedelta(seconds=1) - offset - (0 if year else _FOUR_CENTURIES)
    return Timestamp(seconds * SECOND + int(((fraction or "") + "0" * 9)[:9]), offset)


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339, with as many digits as needed."""
    local = value.local(value.offset)
    nanos = value.nanos % SECOND
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    minutes = abs(value.offset) // 60
    zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if value.offset else "Z"
    return f"{local.year:04}-{local.clock:%m-%dT%H:%M:%S}{fraction}{zone}"

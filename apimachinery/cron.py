"""Parses cron schedules and computes their next time, with the semantics and error texts of robfig/cron v3
(ParseStandard).

Five fields, descriptors (`@hourly`, `@every 90s`), `TZ=` and `CRON_TZ=`. A schedule that restricts both the
day of the month and that of the week fires when either matches.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubeskew.apimachinery.go_durations import parse_duration


class CronError(ValueError):
    """A schedule that does not parse; the text is the library's."""


class Schedule(Protocol):
    """Computes the moments of a cron schedule."""

    def next(self, after: datetime) -> datetime | None:
        """Returns the first moment after `after`, in UTC; None if there is none within five years."""
        ...


class _Bounds(NamedTuple):
    least: int
    most: int
    names: Mapping[str, int] = {}


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MINUTE, _HOUR, _DAY = _Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31)
_MONTH = _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
_WEEKDAY = _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)})
_FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_YEARS = 5


def parse(text: str, zone: tzinfo = UTC) -> Schedule:
    """Returns the schedule of `text`, in `zone` unless it names a zone itself; raises CronError."""
    if not text:
        raise CronError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, rest = text.partition(" ")
        zone, text = location(prefix.partition("=")[2]), rest.strip()
    if text.startswith("@"):
        return _descriptor(text, zone)
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise CronError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    return _Fields(zone, *(_field(one, bounds) for one, bounds in zip(fields, _FIELDS, strict=True)))


def location(name: str) -> tzinfo:
    """Returns the time zone of that name; raises CronError."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"provided bad location {name}: unknown time zone {name}") from None


def _descriptor(text: str, zone: tzinfo) -> Schedule:
    if text in _DESCRIPTORS:
        return parse(_DESCRIPTORS[text], zone)
    if text.startswith(_EVERY):
        try:
            seconds = parse_duration(text.removeprefix(_EVERY))
        except ValueError as error:
            raise CronError(f"failed to parse duration {text}: {error}") from None
        return _Every(max(1, int(seconds)))
    raise CronError(f"unrecognized descriptor: {text}")


@dataclass(frozen=True, slots=True)
class _Set:
    values: frozenset[int]
    any: bool  # written as a star: no restriction


def _field(text: str, bounds: _Bounds) -> _Set:
    parts = [_range(part, bounds) for part in text.split(",") if part]
    values = frozenset(value for part in parts for value in part.values)
    return _Set(values, any(part.any for part in parts))


def _range(text: str, bounds: _Bounds) -> _Set:
    """Parses one of `*`, `5`, `1-5`, `*/2`, `5/2`, `1-9/2`."""
    limits, *steps = text.split("/")
    first, *lasts = limits.split("-")
    star = first in ("*", "?")
    start, end = bounds.least, bounds.most
    if not star:
        start = end = _number(first, bounds.names)
        if len(lasts) > 1:
            raise CronError(f"too many hyphens: {text}")
        if lasts:
            end = _number(lasts[0], bounds.names)
    step = 1
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0], {})
        end = bounds.most if not lasts else end  # 5/2 goes on to the end
    if start < bounds.least:
        raise CronError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise CronError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {text}")
    return _Set(frozenset(range(start, end + 1, step)), star and step == 1)


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        why = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise CronError(f"failed to parse int from {text}: {why}")
    if int(text) < 0:
        raise CronError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


@dataclass(frozen=True, slots=True)
class _Every:
    """A schedule with a fixed distance, counted from whole seconds."""

    seconds: int

    def next(self, after: datetime) -> datetime | None:
        return after.replace(microsecond=0) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class _Fields:
    zone: tzinfo
    minute: _Set
    hour: _Set
    day: _Set
    month: _Set
    weekday: _Set

    def next(self, after: datetime) -> datetime | None:
        moment = after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = after.year + _YEARS
        while True:
            local = moment.astimezone(self.zone)
            if local.year > limit:
                return None
            if local.month not in self.month.values:
                later = local.replace(day=1, hour=0, minute=0, fold=0) + timedelta(days=32)
                moment = later.replace(day=1).astimezone(UTC)
            elif not self._matches_day(local):
                midnight = local.replace(hour=0, minute=0, fold=0) + timedelta(days=1)
                moment = midnight.astimezone(UTC)
            elif local.hour not in self.hour.values:
                moment += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minute.values:
                moment += timedelta(minutes=1)
            else:
                return moment

    def _matches_day(self, local: datetime) -> bool:
        by_day = local.day in self.day.values
        by_weekday = local.isoweekday() % 7 in self.weekday.values
        if self.day.any or self.weekday.any:
            return by_day and by_weekday
        return by_day or by_weekday

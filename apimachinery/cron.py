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

from kubeskew.apimachinery.go_formats import parse_duration


class CronError(ValueError):
    """A schedule that does not parse; the text is the library's."""


class Schedule(Protocol):
    def next(self, after: datetime) -> datetime | None:
        """The first moment after `after`, in UTC; None if there is none within five years."""
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
    """`zone` holds unless the text names a zone itself; raises CronError."""
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
    """Raises CronError for a zone that is unknown."""
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


class _Walk:
    """A moment that goes ahead until a schedule has it; `local` is its time on the clocks of the zone."""

    def __init__(self, zone: tzinfo, moment: datetime) -> None:
        self._zone, self._begun = zone, False
        self.moment, self.local = moment, moment.astimezone(zone)

    def begin(self, **fields: int) -> None:
        """Sets the smaller fields to their start, before the first step only; then they are there already."""
        if not self._begun and fields:
            self.set(self.local.replace(tzinfo=None, **fields))
        self._begun = True

    def set(self, shown: datetime) -> None:
        """Goes to the moment at which clocks show `shown`, as Go's time.Date finds it.

        That takes the offset of the moment at which UTC would show it for a first guess. Of hours that clocks
        repeat it is so the first west of Greenwich and the second east of it.
        """
        guess = shown.replace(tzinfo=UTC)
        guess -= self._offset(guess)
        self._go(shown.replace(tzinfo=UTC) - self._offset(guess))

    def add(self, time: timedelta) -> None:
        self._go(self.moment + time)

    def _go(self, moment: datetime) -> None:
        self.moment, self.local = moment, moment.astimezone(self._zone)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta()


@dataclass(frozen=True, slots=True)
class _Fields:
    """Finds moments as robfig/cron's SpecSchedule.Next does, where clocks repeat or leave out hours, too."""

    zone: tzinfo
    minute: _Set
    hour: _Set
    day: _Set
    month: _Set
    weekday: _Set

    def next(self, after: datetime) -> datetime | None:
        walk = _Walk(self.zone, after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1))
        limit = walk.local.year + _YEARS
        while walk.local.year <= limit:
            if self._reaches_day(walk) and self._reaches_minute(walk):
                return walk.moment
        return None

    def _reaches_day(self, walk: _Walk) -> bool:
        """Goes on to the schedule's next day; False at the end of a month or year, where all fields are
        compared again."""
        while walk.local.month not in self.month.values:
            walk.begin(day=1, hour=0, minute=0)
            shown = walk.local.replace(tzinfo=None)
            years, month = divmod(shown.month, 12)
            first = shown.replace(year=shown.year + years, month=month + 1, day=1)
            walk.set(first + timedelta(days=shown.day - 1))  # there may be no first midnight of a month
            if walk.local.month == 1:
                return False
        while not self._matches_day(walk.local):
            walk.begin(hour=0, minute=0)
            walk.set(walk.local.replace(tzinfo=None) + timedelta(days=1))
            hour = walk.local.hour
            if hour:  # there is no midnight: back by an hour, or ahead, whichever is nearer
                walk.add(timedelta(hours=24 - hour if hour > 12 else -hour))
            if walk.local.day == 1:
                return False
        return True

    def _reaches_minute(self, walk: _Walk) -> bool:
        """Goes on to the next minute of the schedule in this day; False where the hour or the day is over."""
        while walk.local.hour not in self.hour.values:
            walk.begin(minute=0)
            walk.add(timedelta(hours=1))
            if walk.local.hour == 0:
                return False
        while walk.local.minute not in self.minute.values:
            walk.begin()
            walk.add(timedelta(minutes=1))
            if walk.local.minute == 0:
                return False
        return True

    def _matches_day(self, local: datetime) -> bool:
        by_day = local.day in self.day.values
        by_weekday = local.isoweekday() % 7 in self.weekday.values
        if self.day.any or self.weekday.any:
            return by_day and by_weekday
        return by_day or by_weekday

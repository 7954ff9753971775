"""Cron schedules: what parses, when they are due, and what the library says of the others."""

from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery import cron
from kubeskew.apimachinery.cron import CronError

NOW = datetime(2026, 2, 27, 22, 59, 30, tzinfo=UTC)  # a Friday


def next_times(text, count=2, zone="", now=NOW):
    schedule, found = cron.parse(text, cron.location(zone)), []
    for _ in range(count):
        now = schedule.next(now)
        found.append(now.strftime("%Y-%m-%dT%H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["2026-02-27T23:00:00", "2026-02-27T23:01:00"]),
        ("*/20 * * * *", ["2026-02-27T23:00:00", "2026-02-27T23:20:00"]),
        ("5/25 * * * *", ["2026-02-27T23:05:00", "2026-02-27T23:30:00"]),
        ("0 9-17/4 * * *", ["2026-02-28T09:00:00", "2026-02-28T13:00:00"]),
        ("0 0 31 * *", ["2026-03-31T00:00:00", "2026-05-31T00:00:00"]),
        ("0 0 29 FEB ?", ["2028-02-29T00:00:00"]),
        ("0 0 1 * mon", ["2026-03-01T00:00:00", "2026-03-02T00:00:00"]),
        ("0 0 */10 * mon", ["2026-03-01T00:00:00", "2026-03-02T00:00:00"]),
        ("0 0 1,15 * *", ["2026-03-01T00:00:00", "2026-03-15T00:00:00"]),
        ("0 12 * * Mon-Fri", ["2026-03-02T12:00:00", "2026-03-03T12:00:00"]),
        ("@hourly", ["2026-02-27T23:00:00", "2026-02-28T00:00:00"]),
        ("@weekly", ["2026-03-01T00:00:00", "2026-03-08T00:00:00"]),
        ("@monthly", ["2026-03-01T00:00:00", "2026-04-01T00:00:00"]),
        ("@yearly", ["2027-01-01T00:00:00", "2028-01-01T00:00:00"]),
        ("@every 1m30s", ["2026-02-27T23:01:00", "2026-02-27T23:02:30"]),
        ("TZ=Asia/Tokyo 0 9 * * *", ["2026-02-28T00:00:00", "2026-03-01T00:00:00"]),
        ("CRON_TZ=UTC 0 9 * * *", ["2026-02-28T09:00:00", "2026-03-01T09:00:00"]),
    ],
)
def test_when_it_is_due(text, expected):
    """Stars, steps, ranges, names, descriptors, zones; either day matches if both are restricted."""
    assert next_times(text, len(expected)) == expected


def test_clocks_that_change():
    """An hour that does not exist is left out; the time of day stays in its zone."""
    before = datetime(2026, 3, 28, 0, 30, tzinfo=UTC)

    assert next_times("30 2 * * *", 2, "Europe/Berlin", before) == [
        "2026-03-28T01:30:00",
        "2026-03-30T00:30:00",
    ]


@pytest.mark.parametrize(
    ("text", "zone", "before", "expected"),
    [
        # An hour that is repeated has its starts twice for one who looks in between.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T22:00", ["2026-10-25T00:30:00", "2026-10-25T01:30:00"]),
        # The midnight that is repeated is the later one east of Greenwich, the earlier one west of it.
        ("0 0 30 10 *", "Asia/Amman", "2020-10-29T12:00", ["2020-10-29T22:00:00"]),
        ("0 0 1 11 *", "America/Havana", "2026-10-31T12:00", ["2026-11-01T04:00:00", "2026-11-01T05:00:00"]),
        # A midnight that is left out loses the day east of Greenwich; west of it the day begins later.
        ("0 5 * * sun", "Asia/Beirut", "2026-03-28T12:00", ["2026-04-05T02:00:00"]),
        ("40 0 12 12 *", "America/Asuncion", "2022-12-12T12:00", ["2024-12-12T03:40:00"]),
        ("0 5 4 11 *", "America/Sao_Paulo", "2018-11-03T12:00", ["2018-11-04T07:00:00"]),
    ],
)
def test_hours_that_clocks_repeat_or_leave_out(text, zone, before, expected):
    """Schedules go by what Go's time.Date makes of such an hour, as those of robfig/cron do."""
    now = datetime.fromisoformat(before).replace(tzinfo=UTC)

    assert next_times(text, len(expected), zone, now) == expected


def test_what_is_never_due():
    """No 30th of February within five years."""
    assert cron.parse("0 0 30 2 *").next(NOW) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=Nowhere/Land * * * * *", "provided bad location Nowhere/Land: unknown time zone Nowhere/Land"),
    ],
)
def test_what_does_not_parse(text, expected):
    """In the library's words."""
    with pytest.raises(CronError) as caught:
        cron.parse(text)

    assert str(caught.value) == expected

"""The times of a container runtime's logs."""

from datetime import UTC, datetime

import pytest

from kubeskew.kubelet.containers.log_reader import parse


@pytest.mark.parametrize(
    ("text", "hour", "microsecond"),
    [
        ("2026-01-01T17:41:00.123456789Z", 17, 123456),
        ("2026-01-01T17:41:00.12Z", 17, 120000),
        ("2026-01-01T17:41:00Z", 17, 0),
        ("2026-01-01T17:41:00.123456789+01:00", 16, 123456),
        ("2026-01-01T17:41:00.12+01:00", 16, 120000),
        ("2026-01-01T17:41:00+01:00", 16, 0),
        ("2026-01-01T17:41:00.000000001-05:00", 22, 0),
    ],
)
def test_times_of_lines(text, hour, microsecond):
    """Each is the same moment in UTC, whatever the zone of the runtime, with the digits that a second has."""
    [line] = parse(f"{text} stdout F out".encode())
    assert line.time == datetime(2026, 1, 1, hour, 41, 0, microsecond, UTC)
    assert (line.time.tzinfo, line.stream, line.data) == (UTC, "stdout", b"out\n")


@pytest.mark.parametrize(
    "text", ["2026-01-01T17:41:00", "17:41:00Z", "2026-01-01T17:41:00.Z", "2026-13-01T00:00:00Z"]
)
def test_other_times_are_none(text):
    """A line whose time is not in the format is left out."""
    assert [*parse(f"{text} stdout F out\n".encode())] == []

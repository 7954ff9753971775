"""Durations are printed in few characters."""

from datetime import timedelta

import pytest

from kubeskew.apiserver.registry.tables.cells import human_duration

M, H, D, Y = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1.5, "0s"), (-1, "0s"), (-0.5, "0s"), (0, "0s"), (0.9, "0s"), (1, "1s"),
        (2 * M - 1, "119s"), (2 * M, "2m"), (2 * M + 1, "2m1s"), (10 * M - 1, "9m59s"), (10 * M, "10m"),
        (10 * M + 59, "10m"), (3 * H - 1, "179m"), (3 * H, "3h"), (3 * H + M - 1, "3h"), (3 * H + M, "3h1m"),
        (8 * H - 1, "7h59m"), (8 * H, "8h"), (8 * H + 59 * M, "8h"), (2 * D - 1, "47h"), (2 * D, "2d"),
        (2 * D + H - 1, "2d"), (2 * D + H, "2d1h"), (8 * D - 1, "7d23h"), (8 * D, "8d"), (8 * D + H, "8d"),
        (2 * Y - 1, "729d"), (2 * Y, "2y"), (2 * Y + D - 1, "2y"), (2 * Y + D, "2y1d"),
        (8 * Y - 1, "7y364d"), (8 * Y, "8y"), (9 * Y + 300 * D, "9y"),
    ],
)  # fmt: skip
def test_boundaries(seconds: float, text: str):
    """Units change where upstream changes them, and finer ones appear only while they matter."""
    assert human_duration(timedelta(seconds=seconds)) == text

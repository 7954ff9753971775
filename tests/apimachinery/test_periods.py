"""The table of periods and back-offs."""

import sys
from pathlib import Path

import pytest

from kubeskew.apimachinery.periods import QUICK, REAL, Periods, rows
from kubeskew.apimachinery.versions import Version

ROOT = Path(__file__).parents[2]


def test_real_periods_are_those_of_the_release():
    """A period that a release has changed is that of the release, whatever the time."""
    older, newer = Version.parse("1.31"), Version.parse("1.32")
    for time in (REAL, QUICK):
        assert (Periods.at(older, time).node_grace, Periods.at(newer, time).node_grace) == (40.0, 50.0)


def test_quick_is_never_slower():
    """No period of `quick` is longer than upstream's, and some are shorter."""
    quick, real = (Periods.at(Version.parse("1.36"), time) for time in (QUICK, REAL))
    assert all(getattr(quick, name) <= getattr(real, name) for name, _ in rows())
    assert (quick.garbage_collector_discovery, real.garbage_collector_discovery) == (5.0, 30.0)


def test_the_page_of_times_is_that_of_the_table(monkeypatch: pytest.MonkeyPatch):
    """docs/time.md is what the table makes of it."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "hack" / "documents"), *sys.path])
    import time_page

    assert time_page.PAGE.read_text() == time_page.page(), "run hack/documents/time_page.py"

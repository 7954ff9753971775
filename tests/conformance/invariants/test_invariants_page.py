"""The page of invariants, held against the invariants that there are."""

import re
import sys
from pathlib import Path

import pytest

from kubeskew.conformance.invariants.catalogue import invariants

ROOT = Path(__file__).parents[3]


def test_the_page_has_what_each_holds(monkeypatch: pytest.MonkeyPatch):
    """The first table of docs/invariants.md is what the docstrings say, and the second has the same rows."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "hack" / "documents"), *sys.path])
    import invariants_page

    text = invariants_page.PAGE.read_text()
    assert text == invariants_page.page(), "run `make schemas`"
    rows = re.findall(r"^\| (I\d+) \| ([a-z-]+) \|", text, re.MULTILINE)
    assert rows == 2 * [(each.code, each.name) for each in invariants()]

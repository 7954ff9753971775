"""The pages that count what was compared with real programs."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "hack" / "documents"), *sys.path])


@pytest.mark.usefixtures("documents")
def test_the_page_of_truth_is_that_of_the_recordings():
    """docs/truth.md is what the recordings and lists make of it."""
    import truth_page

    assert truth_page.PAGE.read_text() == truth_page.page(), "run hack/documents/truth_page.py"


@pytest.mark.usefixtures("documents")
def test_a_bug_is_seen_on_a_real_program_alone():
    """A bug of the API server does not count where only scheduler and controller manager were real."""
    from seen_bugs import seen_bugs

    from kubeskew.apimachinery.known_bugs import known_bugs
    from kubeskew.conformance import real_outcomes

    found, bugs = seen_bugs(), known_bugs()
    assert found["k8s-134773"].seen == ["1.34.1"]
    assert found["k8s-134773"].absent == ["1.34.2"]
    recorded = real_outcomes.read(real_outcomes.DIRECTORY)
    for bug in found:
        slots = {
            slot
            for cell, ways in recorded.items()
            if f"/{bug}/" in cell
            for way in ways
            for slot in way.split(",")
        }
        assert slots & {bugs[bug].component, *bugs[bug].also}, bug

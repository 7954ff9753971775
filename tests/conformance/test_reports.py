"""Reports: the page, the JSON, the JUnit file."""

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeskew.conformance.report import Run, write
from kubeskew.conformance.results import CellResult, OperationResult, StepResult


@pytest.fixture
def report(tmp_path: Path) -> Path:
    good = CellResult(
        "s/good", "s", {"a": 1}, [StepResult("one", [OperationResult("do", "apply", 0.1)])], 1.0
    )
    bad = CellResult(
        "s/bad",
        "s",
        {"a": 2},
        [
            StepResult(
                "one", [OperationResult("look", "assert", 0.2, "a <b>", "nothing")], [{"revision": 7}]
            ),
            StepResult("two", skipped=True),
        ],
        2.0,
    )
    write(Run("run", datetime(2026, 1, 1, tzinfo=UTC), [good, bad]), tmp_path / "report")
    return tmp_path / "report"


def test_junit_has_one_case_per_cell(report: Path):
    """Every cell is a test case, a failed one with where, what was expected and what was found."""
    suite = ET.parse(report / "junit.xml").getroot()[0]

    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    assert [case.get("name") for case in suite] == ["s/good", "s/bad"]
    assert suite[1][0].get("message") == "one: look: expected a <b>; found nothing"


def test_json_has_every_step(report: Path):
    """The JSON report tells each step's result, those skipped included, and the events of a failure."""
    value = json.loads((report / "report.json").read_text())

    assert (value["passed"], value["failed"]) == (1, 1)
    assert [step["result"] for step in value["cells"][1]["steps"]] == ["failed", "skipped"]
    assert value["cells"][1]["steps"][0]["events"] == [{"revision": 7}]


def test_the_page_escapes_what_was_found(report: Path):
    """What the cluster said cannot become markup of the page."""
    page = (report / "index.html").read_text()

    assert "a &lt;b&gt;" in page
    assert "1 failed" in page

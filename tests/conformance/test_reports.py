"""Reports: the page, the JSON, the JUnit file."""

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeskew.conformance.matrix_runs import interrupted
from kubeskew.conformance.report import Run, write
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.scenario import Exemption, ExpectedFailure, Parameter, Scenario, Step


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
            StepResult("two", not_run="the step 'one' failed"),
        ],
        2.0,
    )
    return written(tmp_path, good, bad)


def written(tmp_path: Path, *cells: CellResult) -> Path:
    write(Run("run", datetime(2026, 1, 1, tzinfo=UTC), cells), tmp_path / "report")
    return tmp_path / "report"


def test_junit_has_one_case_per_cell(report: Path):
    """Every cell is a test case, a failed one with where, what was expected and what was found."""
    suite = ET.parse(report / "junit.xml").getroot()[0]

    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    assert [case.get("name") for case in suite] == ["s/good", "s/bad"]
    assert suite[1][0].get("message") == "one: look: expected a <b>; found nothing"


def test_json_has_every_step(report: Path):
    """The JSON report has the result of each step, also of those not run, and the events of a failure."""
    value = json.loads((report / "report.json").read_text())

    assert (value["passed"], value["failed"]) == (1, 1)
    assert [step["result"] for step in value["cells"][1]["steps"]] == ["failed", "notRun"]
    assert value["cells"][1]["steps"][0]["events"] == [{"revision": 7}]


def test_the_page_escapes_what_was_found(tmp_path: Path):
    """Texts from the cluster are escaped, so that they cannot become markup of the page."""
    look = OperationResult("look", "assert", 0.2, "a <b>", "nothing")
    page = (
        written(tmp_path, CellResult("s/bad", "s", {}, [StepResult("one", [look])])) / "index.html"
    ).read_text()

    assert "a &lt;b&gt;" in page
    assert "1 failed" in page


MARK = ExpectedFailure("`true`", ("looks",), "as upstream", "no Pod", "kubernetes/kubernetes#1")
LEFT_OUT = Exemption("`true`", ("uses it",), "there is no pod")


def known_failure() -> CellResult:
    """A cell that fails as upstream fails, and has a step that cannot be run then."""
    return CellResult(
        "s/known",
        "s",
        {},
        [
            StepResult("looks", [OperationResult("look", "assert", 0.1, "a Pod", "no Pod at all")]),
            StepResult("uses it", not_run="nothing was bound to $uid"),
        ],
        1.0,
        expected_failures={"looks": [MARK]},
        exemptions={"uses it": [LEFT_OUT]},
    )


def test_json_keeps_its_contract(tmp_path: Path):
    """Programs read these keys: the counts of cells, and of each cell its steps, seed and the log's hash."""
    value = json.loads((written(tmp_path, known_failure()) / "report.json").read_text())
    [cell] = value["cells"]

    counts = [value[key] for key in ("formatVersion", "passed", "expected", "failed", "notRun", "seconds")]
    assert counts == [1, 0, 1, 0, 0, 1.0]
    assert value["steps"] == {"passed": 0, "expected": 1, "failed": 0, "notRun": 1}
    assert [
        cell[key] for key in ("name", "result", "seconds", "stepsRun", "stepsNotRun", "seed", "logHash")
    ] == [*("s/known", "expected", 1.0, 1, 1, None, None)]
    assert [(step["result"], step["red"], step["why"], step["reason"]) for step in cell["steps"]] == [
        ("expected", False, "look: expected a Pod; found no Pod at all", "as upstream"),
        ("notRun", False, "nothing was bound to $uid", "there is no pod"),
    ]


def test_nothing_is_skipped_silently(tmp_path: Path):
    """A test case that passed reports each step that failed as upstream, and each that was not run."""
    nothing = CellResult(
        "s/nothing", "s", {}, [StepResult("uses it", not_run="no pod")], exemptions={"uses it": [LEFT_OUT]}
    )
    directory = written(tmp_path, known_failure(), nothing)
    suite = ET.parse(directory / "junit.xml").getroot()[0]

    assert (suite.get("failures"), suite.get("skipped"), nothing.outcome) == ("0", "1", "notRun")
    assert (suite[0].findtext("system-out") or "").splitlines() == [
        "looks: fails as upstream: as upstream (kubernetes/kubernetes#1)",
        "uses it: not run: nothing was bound to $uid: there is no pod",
    ]
    assert suite[1][0].get("message") == "uses it: not run: no pod: there is no pod"


def test_an_interrupted_run_reports_every_cell():
    """Cells that were ready are as they were; of the others no step was run, and none is green."""
    scenario = Scenario("s", (Step("looks", ()),), parameters=(Parameter("n", (1, 2)),))
    cells = list(scenario.cells())
    ready = CellResult("s/1", "s", {"n": 1}, [StepResult("looks")])

    results = interrupted(cells, [ready])

    assert [(result.name, result.outcome, result.passed) for result in results] == [
        ("s/1", "passed", True),
        ("s/2", "notRun", False),
    ]
    assert results[1].failure == "looks: was not run: the run was interrupted"

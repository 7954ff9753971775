"""Recorded outcomes, and what differs from them."""

from pathlib import Path

import pytest

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.matrix import cells_of
from kubeskew.conformance.outcomes import RECORD, comparable, differences, outcome, read, record
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.scenario import INVARIANTS, Exemption, ExpectedFailure

MARK = ExpectedFailure("`true`", ("looks",), "as upstream", "expected '2', found '[0-9]'", "KEP-5004")
LEFT_OUT = Exemption("`true`", ("uses it",), "there is no pod")


def result(name: str, found: str = "", *, exempt: bool = True) -> CellResult:
    """A cell whose step fails as it is to, and leaves one operation out; `found` is what it finds."""
    look = OperationResult("look", "assert", 0.1, "a Pod" if found else "", found)
    behind = [OperationResult("behind", "assert", 0.0, not_run="look failed")] if found else []
    return CellResult(
        name,
        "s",
        {},
        [
            StepResult("starts"),
            StepResult("looks", [look, *behind]),
            StepResult("uses it", not_run="nothing: $uid"),
        ],
        expected_failures={"looks": [MARK]} if found else {},
        exemptions={"uses it": [LEFT_OUT]} if exempt else {},
    )


def test_an_outcome_has_what_is_the_same_in_every_run():
    """Of an expected failure the part that the mark reports is recorded, without names that are drawn."""
    found = outcome(
        result("s/a", "Quota x-8fk2p of 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed: expected '2', found '0'")
    )

    assert found == {
        "result": "expected",
        "steps": {
            "starts": "passed",
            "looks": "expected: expected '2', found '0'; 1 operations behind it not run",
            "uses it": "notRun: nothing: $uid",
        },
    }


def test_what_came_otherwise_is_a_difference(tmp_path: Path):
    """Each step with another outcome is a line; so are cells that are new, and cells that are gone."""
    path = tmp_path / "outcomes.json"
    record(path, [result("s/a", "expected '2', found '0'"), result("s/b"), result("s/gone")])
    was, is_ = (f"expected: expected '2', found '{n}'; 1 operations behind it not run" for n in "01")
    now = [result("s/a", "expected '2', found '1'"), result("s/b", exempt=False), result("s/new")]

    assert list(differences(read(path), now, ["s/a", "s/b", "s/new"])) == [
        f"s/a: looks: was {was}, is {is_}",
        "s/b: was passed, is failed",
        "s/new: not recorded yet",
        "s/gone: recorded, but there is no such cell any more",
    ]
    assert list(differences(read(path), [result("s/b")])) == []


def test_a_failed_cell_keeps_its_record(tmp_path: Path):
    """A cell that failed keeps its recorded outcome, and other cells keep theirs."""
    path = tmp_path / "outcomes.json"
    record(path, [result("s/a"), result("s/b")])
    before = read(path)

    assert record(path, [result("s/a", exempt=False)]) == ["s/a"]
    assert read(path) == before
    assert record(path, [], ["s/a"]) == []
    assert list(read(path)) == ["s/a"]


def test_a_damaged_record_is_reported(tmp_path: Path):
    """No record is an empty one; a file that is none is refused."""
    assert read(tmp_path / "none.json") == {}
    (tmp_path / "outcomes.json").write_text("{")
    with pytest.raises(ScenarioError, match="these are no recorded outcomes"):
        read(tmp_path / "outcomes.json")


def test_the_cells_that_are_compared_in_every_test_are_recorded():
    """The record has every step of the cells of the profile `sample`, and what invariants upstream breaks."""
    recorded = read(RECORD)

    for cell in cells_of("sample"):
        broken = [INVARIANTS] if INVARIANTS in cell.expected_failures() else []
        assert list(recorded[cell.name]["steps"]) == [*(step.name for step in cell.steps()), *broken]


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("passed", "passed"),
        ("expected: b; a-bcdfg", "expected: a-#; b"),
        ("failed: b; a at revision 7", "failed: b; a at revision #"),
        ("notRun: nothing: $uid", "notRun: nothing: $uid"),
    ],
)
def test_a_verdict_is_compared_without_chance(verdict: str, text: str):
    """Neither drawn names nor revisions differ, nor the order in which expected failures came."""
    assert comparable(verdict) == text


def test_another_revision_in_a_failure_is_no_difference():
    """A component that writes more at its start moves revisions in recorded texts, which say nothing."""
    cell = result("s/a", "it was written at revision 12")
    recorded = {"s/a": outcome(result("s/a", "it was written at revision 7"))}

    assert "revision 7" in recorded["s/a"]["steps"]["looks"]
    assert list(differences(recorded, [cell])) == []

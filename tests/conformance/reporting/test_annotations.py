"""Annotations of GitHub Actions for what failed: at which line of which file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeskew.conformance.report import Repeating, Run, as_json
from kubeskew.conformance.reporting.annotations import annotations, error, step_lines
from kubeskew.conformance.results import CellResult, OperationResult, StepResult

FILE = """# a comment
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: mine}
spec:
  steps:
  - name: one
    try: []
  - try: []
    name: "two: again"
  - forEach: {hop: [a, b]}
    name: three
    try: []
"""


def cell(name: str, **found: str) -> CellResult:
    """A cell with steps that found what is given; `""` is what was expected."""
    steps = [
        StepResult(
            step.replace("_", " "), [OperationResult("look", "assert", 0.1, "a Pod" if text else "", text)]
        )
        for step, text in found.items()
    ]
    return CellResult(name, "mine", {}, steps, 1.0)


def report(folder: Path, *cells: CellResult, place: str = "mine.yaml") -> dict[str, Any]:
    places = {"mine": str(folder / place)} if place else {}
    return as_json(Run("mine", datetime(2026, 1, 1, tzinfo=UTC), cells, (), Repeating(["kubeskew"], places)))


def test_steps_are_found_where_the_file_has_them():
    """A step's line is that of its entry, in any order of its keys."""
    assert step_lines(FILE) == {"one": 11, "two: again": 13, "three": 15}


def test_cells_that_fail_at_one_step_are_one_annotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file is named from the working directory, the line is the step's, repeated or not; what passes is
    not reported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(FILE)
    repeated = CellResult(
        "mine/d", "mine", {}, [StepResult("b: three", [OperationResult("look", "assert", 0.1, "a", "b")])]
    )
    found = annotations(
        report(
            tmp_path,
            cell("mine/a", one="", three=""),
            *(cell("mine/b", one="50%,\nnone"), cell("mine/c", one="none")),
            repeated,
        )
    )

    assert found == [
        (
            "::error file=mine.yaml,line=11,title=mine%3A one::"
            "mine/b, mine/c%0Aone: look: expected a Pod; found 50%25,%0Anone"
        ),
        (
            "::error file=mine.yaml,line=15,title=mine%3A b%3A three::"
            "mine/d%0Ab: three: look: expected a; found b"
        ),
    ]


def test_cells_without_a_file_or_a_step_are_reported(tmp_path: Path):
    """A scenario that comes along has no file; a cell that could not be run, no step; a file may be away."""
    broken = CellResult("mine/a", "mine", {}, error="no cluster")
    assert annotations(report(tmp_path, broken, place="")) == ["::error title=mine::mine/a%0Ano cluster"]
    [line] = annotations(report(tmp_path, cell("mine/a", one="x"), place="gone.yaml"))
    assert line.startswith(f"::error file={tmp_path}/gone.yaml,line=1,title=mine%3A one::mine/a%0A")


def test_what_was_not_run_is_reported_only_if_nothing_failed(tmp_path: Path):
    """Steps behind a failure are its effect; a run that was interrupted has nothing else."""
    failed = cell("mine/a", one="x")
    failed.steps.insert(0, StepResult("two", not_run="why"))
    interrupted = CellResult("mine/b", "mine", {}, [StepResult("one", not_run="the run was interrupted")])
    titles = [
        line.partition("::mine")[0] for line in annotations(report(tmp_path, failed, interrupted, place=""))
    ]

    assert titles == ["::error title=mine%3A one"]


def test_properties_and_text_are_escaped():
    """A colon and a comma would end a property, a line break the command."""
    assert error("a: b, c\r\n%", {"title": "d: e, f\n"}) == "::error title=d%3A e%2C f%0A::a: b, c%0D%0A%25"

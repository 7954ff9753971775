"""`kubeskew matrix compare`: two reports held against each other."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeskew.cli.main import main
from kubeskew.conformance.report import Run, write
from kubeskew.conformance.results import CellResult, OperationResult, StepResult


def cell(name: str, *found: str) -> CellResult:
    """A cell with a step per text: one that found what it expected has none."""
    steps = [
        StepResult(f"step {number}", [OperationResult("look", "assert", 0.1, "a Pod" if text else "", text)])
        for number, text in enumerate(found, 1)
    ]
    return CellResult(name, "s", {}, steps, 1.0)


def report(folder: Path, name: str, *cells: CellResult, title: str = "mine") -> Path:
    write(Run(title, datetime(2026, 1, 1, tzinfo=UTC), cells), folder / name)
    return folder / name


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["matrix", "compare", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_reports_that_came_out_alike_are_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The exit code is 0, and what was found may be worded otherwise."""
    one, other = report(tmp_path, "a", cell("s/1", "", "x")), report(tmp_path, "b", cell("s/1", "", "y"))

    assert call(capsys, one, other)[:2] == (0, f"1 cells of {one}, 1 of {other}: all came out alike\n")


def test_what_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A cell, its step, one that came and one that went are shown with both outcomes; the exit code is 1."""
    one = report(tmp_path, "a", cell("s/1", "", ""), cell("s/gone", ""))
    other = report(tmp_path, "b", cell("s/1", "", "no Pod"), cell("s/new", ""))

    code, output, _ = call(capsys, one, other)
    assert code == 1
    assert output.splitlines()[:-1] == [
        "s/1: passed → failed",
        "    now: step 2: look: expected a Pod; found no Pod",
        "s/1: step 2: passed → failed",
        "    now: look: expected a Pod; found no Pod",
        "s/new: absent → passed",
        "s/gone: passed → absent",
    ]
    code, output, _ = call(capsys, one, other, "-o", "json")
    assert code == 1
    assert [
        (each["cell"], each["step"], each["old"], each["new"]) for each in json.loads(output)["differences"]
    ] == [
        ("s/1", "", "passed", "failed"),
        ("s/1", "step 2", "passed", "failed"),
        ("s/new", "", "absent", "passed"),
        ("s/gone", "", "passed", "absent"),
    ]


def test_reports_of_different_runs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """One line says what is wrong, and the exit code is 2."""
    one, other = report(tmp_path, "a", cell("s/1")), report(tmp_path, "b", cell("t/1"), title="others")
    (tmp_path / "explored").mkdir()
    (tmp_path / "explored" / "report.json").write_text('{"findings": []}')
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "report.json").write_text('{"cells": [')

    for second, message in (
        (other, "reports of different runs: 'mine' and 'others' have no cell in common"),
        (tmp_path / "none", "there is no"),
        (tmp_path / "explored", "this is no report of cells"),
        (tmp_path / "cut", "this report is damaged"),
    ):
        code, out, err = call(capsys, one, second)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert message in err


def test_help_of_matrix_names_it(capsys: pytest.CaptureFixture[str]):
    """`matrix --help` lists `compare`, and `matrix compare --help` says what it takes."""
    assert call(capsys, "--help")[1].startswith("Usage: kubeskew matrix compare")
    with pytest.raises(SystemExit):
        main(["matrix", "--help"])
    assert "compare" in capsys.readouterr().out.rpartition("Commands:")[2]


def test_an_exploration_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A directory in which `explore` keeps what it found is refused in one line, before anything is run."""
    (tmp_path / "exploration.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["matrix", "--report", str(tmp_path)])

    error_output = capsys.readouterr().err
    assert ended.value.code == 2
    assert "an exploration is kept there" in error_output
    assert len(error_output.splitlines()) == 1


@pytest.mark.parametrize("name", ["index.html", "junit.xml"])
def test_a_page_that_is_of_no_report_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
):
    """A directory with a page of somebody else's is refused in one line, before anything is run."""
    (tmp_path / name).write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["run", "kep-5004/basic", "--report", str(tmp_path)])

    error_output = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"{name} is there, but no report.json" in error_output
    assert len(error_output.splitlines()) == 1
    assert (tmp_path / name).read_text() == "mine"


def test_a_place_for_the_report_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """A file on the way, or a directory without the right, is reported before the first cell runs."""
    (tmp_path / "file").write_text("")
    for directory in ("file/report", "new/report"):
        with pytest.raises(SystemExit) as ended:
            main(["run", "kep-5004/basic", "--report", str(tmp_path / directory)])
        error_output = capsys.readouterr().err
        assert ended.value.code == 2
        assert error_output.count("\n") == 1
        assert "nothing can be written to" in error_output
        monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write everywhere

"""Outcomes of cells with real programs: the record of them, and emulated cells that are held against it."""

import json
from pathlib import Path

import pytest

from kubeskew.conformance import real_outcomes
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.components import ComponentRun
from kubeskew.conformance.matrix import cells_of
from kubeskew.conformance.results import CellResult, OperationResult, StepResult

PROGRAM = "kube-scheduler v1.36.3"


def cell(
    name: str, *found: str, version: str = "1.36", program: str = "", impossible: str = ""
) -> CellResult:
    """A cell with a step per text: one that found what it expected has none."""
    steps = [
        StepResult(f"step {number}", [OperationResult("look", "assert", 0.1, "a Pod" if text else "", text)])
        for number, text in enumerate(found, 1)
    ]
    steps += [StepResult("switches", not_run=impossible, impossible=impossible)] if impossible else []
    components = [
        ComponentRun("scheduler", "1.35", "", "", program=program),
        ComponentRun("driver/d", "", "", ""),
    ]
    return CellResult(
        name, "s", {}, steps, components=[*components, ComponentRun("kubelet/n", version, "", "")]
    )


def test_cells_are_recorded_by_their_newest_minor(tmp_path: Path):
    """Each minor has a file; failures are recorded, without what differs in every run, and programs."""
    first = cell("s/a", "", "Pod a-bcdfg at revision 12", program=PROGRAM, impossible=f"{PROGRAM} runs here")
    second = cell("s/b", "", version="1.37", program=PROGRAM)
    broken, emulated = cell("s/c", program=PROGRAM), cell("s/d", "")
    broken.error = "ClusterError: it does not start\nat all"

    assert real_outcomes.record(tmp_path / "real", [second, first, broken, emulated]) == [
        "s/c: not recorded: ClusterError: it does not start",
        "s/d: not recorded: no real program ran in it",
    ]
    assert json.loads((tmp_path / "real" / "outcomes-1.36.json").read_text()) == {
        "s/a": {
            "scheduler": {
                "result": "failed",
                "steps": {
                    "step 1": "passed",
                    "step 2": "failed: look: expected a Pod; found Pod a-# at revision #",
                    "switches": f"notRun on a real program: {PROGRAM} runs here",
                },
                "real": {"scheduler": [PROGRAM]},
            }
        }
    }
    assert [*real_outcomes.read(tmp_path / "real")] == ["s/a", "s/b"]


def test_a_recording_replaces_the_one_before(tmp_path: Path):
    """Other cells stay; a cell that has moved to another minor is in one file alone."""
    real_outcomes.record(tmp_path, [cell("s/a", "", program=PROGRAM), cell("s/b", "", program=PROGRAM)])
    real_outcomes.record(tmp_path, [cell("s/a", "no", version="1.37", program=PROGRAM)])

    assert [*json.loads((tmp_path / "outcomes-1.36.json").read_text())] == ["s/b"]
    assert json.loads((tmp_path / "outcomes-1.37.json").read_text())["s/a"]["scheduler"]["result"] == "failed"


def test_emulated_cells_are_held_against_it(tmp_path: Path):
    """Steps that differ have a line; those that a real program cannot do, and cells without one, do not."""
    real_outcomes.record(
        tmp_path,
        [cell("s/a", "", "a-bcdfg", program=PROGRAM, impossible="no"), cell("s/b", "", program=PROGRAM)],
    )
    switched = cell("s/a", "no Pod", "a-zxwvt")
    switched.steps.append(StepResult("switches"))

    found = real_outcomes.compare(
        real_outcomes.read(tmp_path), [switched, cell("s/b", ""), cell("s/new", "")]
    )
    assert found.differences == [
        f"s/a: step 1: was passed with {PROGRAM}, is failed: look: expected a Pod; found no Pod"
    ]
    assert (found.unrecorded, found.compared) == (["s/new"], 2)

    broken = cell("s/b")
    broken.error = "ClusterError: no"
    [line] = real_outcomes.compare(real_outcomes.read(tmp_path), [broken]).differences
    assert line == f"s/b: was passed with {PROGRAM}, is ClusterError: no"


def test_each_set_of_slots_has_an_outcome_of_its_own(tmp_path: Path):
    """An emulated cell is held against all of them, a real one against that of its own slots."""
    with_kubelet = cell("s/a", "no", program=PROGRAM)
    with_kubelet.components = [
        *with_kubelet.components,
        ComponentRun("kubelet/m", "1.36", "", "", program="kubelet v1.36.3"),
    ]
    real_outcomes.record(tmp_path, [cell("s/a", "", program=PROGRAM)])
    real_outcomes.record(tmp_path, [with_kubelet])
    recorded = real_outcomes.read(tmp_path)
    assert [*recorded["s/a"]] == ["kubelet,scheduler", "scheduler"]

    [line] = real_outcomes.compare(recorded, [cell("s/a", "")]).differences
    assert "with kubelet v1.36.3" in line or f"with {PROGRAM}, kubelet v1.36.3" in line
    assert real_outcomes.compare(recorded, [with_kubelet, cell("s/a", "", program=PROGRAM)]).differences == []


def test_outcomes_of_several_runs_stand_side_by_side(tmp_path: Path):
    """Added outcomes of the same programs are all allowed; those of other programs take their place."""
    for found in ("", "no"):
        real_outcomes.record(tmp_path, [cell("s/a", found, program=PROGRAM)], add=True)
    recorded = real_outcomes.read(tmp_path)

    for found in ("", "no"):
        assert real_outcomes.compare(recorded, [cell("s/a", found)]).differences == []
    [line] = real_outcomes.compare(recorded, [cell("s/a", "other")]).differences
    assert "step 1: was failed: look: expected a Pod; found no or passed with" in line

    real_outcomes.record(tmp_path, [cell("s/a", "", program="kube-scheduler v1.36.4")], add=True)
    assert real_outcomes.read(tmp_path)["s/a"]["scheduler"]["steps"] == {"step 1": "passed"}


def test_a_step_that_one_run_could_not_do_is_compared_with_the_others(tmp_path: Path):
    """Only a step that no run could do is left out."""
    undone = StepResult("switches", not_run="no", impossible="no")
    for steps in ([undone], [StepResult("switches")]):
        ran = cell("s/a", program=PROGRAM)
        ran.steps = steps
        real_outcomes.record(tmp_path, [ran], add=True)
    other = cell("s/a")
    other.steps = [StepResult("switches", [OperationResult("look", "assert", 0.1, "a Pod", "no")])]
    [line] = real_outcomes.compare(real_outcomes.read(tmp_path), [other]).differences
    assert "switches: was passed with" in line


def test_a_difference_with_a_name_is_told_with_its_reason(tmp_path: Path):
    """It counts for the step and the texts that it names, and for no others."""
    real_outcomes.record(tmp_path, [cell("s/a", "no", program=PROGRAM)])
    name = {
        "cells": "s/*",
        "step": "step 1",
        "recorded": "failed: look",
        "emulated": "passed",
        "reason": "chance",
    }
    (tmp_path / "named.yaml").write_text(json.dumps([name]))
    recorded, named = real_outcomes.read(tmp_path), real_outcomes.read_named(tmp_path)

    found = real_outcomes.compare(recorded, [cell("s/a", "")], named)
    assert (found.differences, [line.endswith(": chance") for line in found.named]) == ([], [True])
    assert len(real_outcomes.compare(recorded, [cell("s/a", "other")], named).differences) == 1

    (tmp_path / "named.yaml").write_text("- {cells: s/a}")
    with pytest.raises(ScenarioError, match="these are no named differences"):
        real_outcomes.read_named(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "there is no directory"),
        ({}, "has no outcomes-"),
        ({"outcomes-1.36.json": "["}, "these are no recorded outcomes"),
        ({"outcomes-1.36.json": '{"s/a": {"result": "passed"}}'}, "s/a is recorded in an older format"),
    ],
)
def test_a_folder_without_a_recording_is_refused(tmp_path: Path, files: dict[str, str] | None, message: str):
    """A missing, empty or damaged recording is an error that says so."""
    folder = tmp_path / "real"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    with pytest.raises(ScenarioError, match=message):
        real_outcomes.read(folder)


def test_the_recording_is_of_cells_that_there_are():
    """The recording that comes with kubeskew names the programs of each cell, and no cell that is gone."""
    recorded = real_outcomes.read(real_outcomes.DIRECTORY)
    assert {*recorded} <= {cell.name for cell in cells_of("full")}
    for ways in recorded.values():
        assert ways
        assert all(slots == real_outcomes.slots_of(way["real"]) for slots, way in ways.items())

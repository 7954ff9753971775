"""Two simulated lanes of a cell, compared step by step: alike but for chance, and different by a bug."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kubeskew.conformance.matrix import of_scenarios
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.scenario import Cell
from kubeskew.conformance.side_by_side import side_by_side
from kubeskew.simulation.runs import simulate


def lane(name: str, seed: int, bugs: Mapping[str, bool] | None = None) -> CellResult:
    """Simulates a cell; a baseline has it keep the record that comparisons need."""
    [cell] = of_scenarios([name]).cells([name])
    scenario = replace(cell.scenario, baseline={"version": "none"}, bugs=bugs or {})
    return simulate(Cell(scenario, cell.parameters), seed, lambda _: None).result


@pytest.mark.parametrize("name", ["kep-5004/quota/1.36", "kep-4815/flips/none/1.36", "dra/claims/1.36"])
def test_lanes_of_other_seeds_are_alike(name: str):
    """Generated names, times and the order of writes differ with the seed, and are no difference."""
    one, other = lane(name, 1), lane(name, 2)
    assert one.passed
    assert [str(each) for each in side_by_side(one, other).differences] == []


def test_a_bug_makes_lanes_differ():
    """The lane with the bug differs in steps' results, in an event and in the object that it deletes."""
    bug, name = "k8s-133313", "known-bugs/k8s-133313/1.36"
    found = side_by_side(lane(name, 1), lane(name, 1, {bug: False})).differences
    assert [(each.step, each.kind, each.emulated) for each in found if each.kind == "result"] == [
        ("nobody warns of the other one", "result", "passed"),
        ("it is kept when both have ended", "result", "passed"),
    ]
    about = {(each.kind, each.about): (each.real, each.emulated) for each in found}
    warned = "event", "Warning UnexpectedJob CronJob known-bugs-k8s-133313/nightly"
    assert about[warned][1] == "absent"
    assert about["object", "jobs.batch known-bugs-k8s-133313/work"] == ("absent", "present")

"""Each known bug that is built: its scenario is red because of it, and of nothing else."""

from dataclasses import replace

import pytest

from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.conformance import matrix
from kubeskew.conformance.results import EXPECTED, PASSED
from kubeskew.conformance.scenario import Cell, Scenario
from kubeskew.simulation.running import simulate

# Bugs that no client can provoke, or that only an exploration comes upon, and the test that shows each.
SHOWN_ELSEWHERE = {
    "k8s-129795": "tests/controllers/test_replicaset_controller.py",
    "k8s-136269": "tests/scheduler/test_gathering.py",
    "k8s-137210": "tests/controllers/test_job_controller.py",
    "k8s-141329": "tests/controllers/test_job_controller.py",
    "k8s-139236": "tests/controllers/test_service_controllers.py",
}
BUILT = [bug.id for bug in known_bugs().values() if bug.switch and bug.id not in SHOWN_ELSEWHERE]


def scenario(bug: str) -> Scenario:
    (found,) = matrix.of_scenarios((f"known-bugs/{bug}",)).scenarios
    return found


@pytest.mark.parametrize("bug", BUILT)
def test_a_scenario_shows_the_bug_on_both_sides_of_its_boundary(bug: str):
    """There is a cell that carries an expected failure with the bug's id, and one that carries none."""
    made = scenario(bug)

    assert {mark.bug for mark in made.expected_failures} == {bug}
    assert {bool(cell.expected_failures()) for cell in made.cells()} == {True, False}


@pytest.mark.slow  # the cells as they are shipped, one on each side, are among all cells
@pytest.mark.parametrize("bug", BUILT)
def test_without_the_bug_an_affected_release_does_as_a_fixed_one(bug: str):
    """A red cell is green once the bug is off; the green one beside it is red once the bug is on."""
    made = scenario(bug)
    cells = list(made.cells())
    red = next(cell for cell in cells if cell.expected_failures())
    green = next(cell for cell in cells if not cell.expected_failures())

    assert outcome(red, {bug: False}) == PASSED
    assert outcome(green, {bug: True}) == EXPECTED


def outcome(cell: Cell, bugs: dict[str, bool]) -> str:
    """Returns how the cell ends, with its failure where it is red."""
    result = simulate(replace(cell, scenario=replace(cell.scenario, bugs=bugs)), 0, lambda _: None).result
    return result.outcome if result.passed else result.failure

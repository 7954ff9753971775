"""Each known bug that is built: its scenario is red because of it, and of nothing else."""

from dataclasses import replace

import pytest

from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.apimachinery.versions import NEWEST_MINOR, Version
from kubeskew.conformance import matrix
from kubeskew.conformance.bindings import evaluate
from kubeskew.conformance.results import EXPECTED, PASSED
from kubeskew.conformance.scenario import Cell, Scenario
from kubeskew.simulation.runs import simulate

# Bugs that no client can provoke, that only an exploration comes upon, or that no scenario can show (watches
# of its own, a thousand pods), and the test that shows each.
SHOWN_ELSEWHERE = {
    "k8s-129795": "tests/controllers/replicaset/test_replicaset_controller.py",
    "k8s-136269": "tests/scheduler/plugins/dynamicresources/test_devices_in_use.py",
    "k8s-137210": "tests/controllers/job/test_job_controller.py",
    "k8s-141329": "tests/controllers/job/test_job_controller.py",
    "k8s-137534": "tests/kubelet/deviceplugins/test_device_plugin_calls.py",
    "k8s-141206": "tests/kubelet/checkpoints/test_pod_allocations.py",
    "k8s-141694": "tests/scheduler/test_preemption.py",
    "k8s-139186": "tests/scheduler/test_scheduler_queue.py",
    "k8s-136734": "tests/scheduler/plugins/test_plain_plugins.py",
    "k8s-139236": "tests/controllers/test_service_controllers.py",
    "k8s-140325": "tests/scheduler/allocator/test_allocator_repairs.py",
    "k8s-120413": "tests/scheduler/test_scheduler_queue.py",
    "k8s-125145": "tests/apiserver/handlers/test_watches.py",
    "k8s-127417": "tests/controllers/test_service_controllers.py",
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
    assert {is_red(cell) for cell in made.cells()} == {True, False}


@pytest.mark.parametrize("bug", BUILT)
def test_a_scenario_switches_only_a_bug_of_releases_none_of_which_is_without_it(bug: str):
    """Red cells are as their release is; so are green ones, unless the bug is open and they have it off."""
    for cell in scenario(bug).cells():
        switched = cell.cluster().get("bugs") or {}

        assert switched in ({}, {bug: False})
        if switched:
            assert not is_red(cell)
            assert known_bugs()[bug].is_open, "a fixed release shows how it is without the bug"
            assert all(known_bugs()[bug].affects(release) for release in releases(cell))


@pytest.mark.parametrize("bug", [bug for bug in BUILT if known_bugs()[bug].is_open])
def test_the_newest_release_shows_an_open_bug(bug: str):
    """A bug that no release has fixed is found in a cell of the newest release as it is."""
    assert any(Version(NEWEST_MINOR) in releases(cell) for cell in scenario(bug).cells() if is_red(cell))


@pytest.mark.slow  # the cells as they are shipped, one on each side, are among all cells
@pytest.mark.parametrize("bug", BUILT)
def test_without_the_bug_an_affected_release_does_as_a_fixed_one(bug: str):
    """A red cell is green once the bug is off; the green one next to it is red once the bug is on."""
    made = scenario(bug)
    cells = list(made.cells())
    red = next(cell for cell in cells if is_red(cell))
    green = next(cell for cell in cells if not is_red(cell))

    assert outcome(red, {bug: False}) == PASSED
    assert outcome(green, {bug: True}) == EXPECTED


def is_red(cell: Cell) -> bool:
    """Returns whether the cell is to fail as upstream."""
    return bool(cell.expected_failures())


def releases(cell: Cell) -> set[Version]:
    """Returns the releases of the bug's component that the scenario's marks name in that cell."""
    marks = cell.scenario.expected_failures
    return {Version.parse(str(evaluate(mark.at, cell.parameters))) for mark in marks}


def outcome(cell: Cell, bugs: dict[str, bool]) -> str:
    """Returns how the cell ends, with its failure where it is red."""
    result = simulate(replace(cell, scenario=replace(cell.scenario, bugs=bugs)), 0, lambda _: None).result
    return result.outcome if result.passed else result.failure

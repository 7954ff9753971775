"""Runs of a laboratory: what the one without faults shows the others."""

from pathlib import Path

import pytest

from kubeskew.simulation.explore.jobs import RunJob
from kubeskew.simulation.explore.laboratory import Simulations
from kubeskew.simulation.explore.selection import cells_named
from kubeskew.simulation.explore.systematic import sites
from kubeskew.simulation.faults.plan import Kind, Plan
from kubeskew.simulation.loop import BrokenOffError
from kubeskew.simulation.runs import FaultyRun, simulate_with_faults

SCENARIO = Path(__file__).parents[2] / "data" / "simulated-pod.yaml"


def test_a_run_without_faults_counts_writes_and_deliveries():
    """Writes, calls of drivers and events of each component are known, so that plans can be made of them."""
    ran = Simulations(cells_named([str(SCENARIO)], {}), tuple(Kind)).run(RunJob(0, 0))

    assert ran.calls is not None
    found = {(site.component, site.verb, site.resource) for site in sites(ran.calls)}
    assert {
        ("scheduler", "create", "pods/binding"),
        ("kubelet/node", "NodePrepareResources", "plugins"),
        ("scheduler", "ADDED", "pods"),
        ("kubelet/node", "ADDED", "pods"),
    } <= found
    assert (ran.failures, dict(ran.drawn)) == ([], {})


@pytest.mark.parametrize(
    ("cell", "broken"),
    [("classic/gate-off/1.26", {"I23"}), ("known-bugs/k8s-139772/1.36", {"I02", "I03"})],
)
def test_what_a_scenario_expects_is_reported_as_its_mark_says(cell: str, broken: set[str]):
    """Invariants that a cell is marked to break, at once or at rest, are known by the mark's reason."""
    cells = cells_named([cell], {})
    failures = Simulations(cells, tuple(Kind)).run(RunJob(0, 0)).failures
    marks = [mark for marks in cells[0].expected_failures().values() for mark in marks]

    assert {failure.invariant for failure in failures} == broken
    assert {failure.mark.reason for failure in failures if failure.mark} <= {mark.reason for mark in marks}
    assert all(failure.mark is not None and not failure.mark.fails for failure in failures)


@pytest.mark.parametrize("fires", [True, False])
def test_an_expected_failure_need_not_come_where_a_fault_fired(fires: bool):
    """A pod that is bound late finds that its kubelet has learnt of the label: a known bug shows nothing."""
    cells = cells_named(["known-bugs/k8s-134445/1.34"], {})
    fault = {"id": "slow", "component": "scheduler", "verb": "create", "resource": "pods/binding"}
    fault |= {"nth": 1 if fires else 99, "delay": "4s"}
    plan = {"seed": 0, "faults": [fault]}

    ran = Simulations(cells, tuple(Kind)).run(RunJob(0, 2, plan=plan))

    assert dict(ran.fired) == ({"slow": 1} if fires else {})
    assert [failure.message for failure in ran.failures if failure.mark is None] == []


def test_a_run_is_broken_off_when_its_time_is_over():
    """A simulation ends where it is, in the middle of a cell, and whoever ran it is where it was."""
    (cell,) = cells_named([str(SCENARIO)], {})
    turns = iter(range(500))
    before = Path.cwd()

    with pytest.raises(BrokenOffError):
        simulate_with_faults(
            cell, FaultyRun(Plan(), 0, over=lambda: next(turns, None) is None), lambda _: None
        )

    assert Path.cwd() == before

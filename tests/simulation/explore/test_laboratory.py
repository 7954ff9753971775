"""Runs of a laboratory: what the one without faults tells the others."""

from pathlib import Path

import pytest

from kubeskew.simulation.explore.jobs import RunJob
from kubeskew.simulation.explore.laboratory import Simulations
from kubeskew.simulation.explore.selecting import cells_named
from kubeskew.simulation.explore.systematic import sites
from kubeskew.simulation.faults.plan import Kind, Plan
from kubeskew.simulation.loop import BrokenOffError
from kubeskew.simulation.running import FaultyRun, simulate_with_faults

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

"""Plays plans of faults in the cell of one pod with a device."""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from kubeskew.conformance import matrix
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.faults.outcome import Played
from kubeskew.simulation.faults.plan import Plan, plan_of
from kubeskew.simulation.runs import FaultyRun, Simulated, simulate_with_faults

SCENARIO = Path(__file__).parents[2] / "data" / "simulated-pod.yaml"
MANAGER, SCHEDULER, KUBELET = "controller-manager", "scheduler", "kubelet/node"
DRIVER = "driver/gpu.example.com"


@cache
def cell() -> Cell:
    """The cell of one pod with a device."""
    (found,) = matrix.of_scenarios((str(SCENARIO),)).cells()
    return found


def run(*faults: dict[str, Any], seed: int = 1) -> Simulated:
    """Plays faults, which get a name each."""
    named = [{"id": f"f{number}", **fault} for number, fault in enumerate(faults, 1)]
    return play(cell(), plan_of({"seed": seed, "faults": named}))


def play(played_in: Cell, plan: Plan) -> Simulated:
    return simulate_with_faults(played_in, FaultyRun(plan, 0), lambda _: None)


def played(ran: Simulated) -> Played:
    """Returns what came of the plan, of a run whose scenario held and whose tasks all ended well."""
    assert ran.played is not None
    assert (ran.result.failure, ran.failures, ran.played.notes) == ("", [], [])
    return ran.played


@cache
def undisturbed() -> Simulated:
    """The run without faults."""
    return run()


def moments(ran: Simulated, component: str) -> list[str]:
    """Returns what happened to a component."""
    found = [each for each in played(ran).log if isinstance(each, ComponentChange)]
    return [each.what for each in found if each.component == component and not each.what.startswith("fault-")]


def running_after(ran: Simulated) -> float:
    """The virtual seconds from the start of the log until the pod runs."""
    log = played(ran).log
    runs = next(
        each
        for each in log
        if isinstance(each, Write)
        and each.resource == "pods"
        and each.value["status"].get("phase") == "Running"
    )
    return (datetime.fromisoformat(runs.time) - datetime.fromisoformat(log[0].time)).total_seconds()

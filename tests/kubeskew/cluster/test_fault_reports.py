"""Tests the reports of a cluster's faults, as the journals of its components have them."""

import json

import pytest

from kubeskew.apimachinery.faults.journal import FaultPlan, journal_path
from kubeskew.cluster import config, creation, faults
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import RunningProgram, StateDir

DRIVER = "gpu.example.com"


@pytest.fixture
def state(ports):
    """The record of a cluster whose driver has a controller."""
    nodes = [{"name": "a", "drivers": [{"name": DRIVER, "devices": 2, "controller": True}]}]
    return creation.plan(config.parse({"version": "1.29", "nodes": nodes}, "test"), ports)


def test_reports_of_both_processes_are_added_up(tmp_path, state):
    """A fault of a driver has the calls and the hits of its plugins and its controller; of one, its own."""
    directory = StateDir(tmp_path)
    directory.faults.mkdir()
    plan, entries = FaultPlan(), []
    for kind in ("driver", "driver-plugin", "driver-controller"):
        plan, entry = faults.added(state, plan, {"component": f"{kind}/{DRIVER}", "answer": 500, "id": kind})
        entries.append(entry)
    counters = {
        "driver": {"driver": (3, 1), "driver-plugin": (5, 0)},
        "driver-controller": {"driver": (4, 2), "driver-controller": (7, 7)},
    }
    for component, of_faults in counters.items():
        lines = [{"applied": 3, "seen": {"get nodes": 2, f"list {component}": 1}}]
        for number, kind in enumerate(("driver", "driver-plugin", "driver-controller"), 1):
            if kind in of_faults:
                matched, fired = of_faults[kind]
                lines.append({"id": kind, "set": number, "matched": matched, "fired": fired, "since": 0.0})
        journal = journal_path(directory.faults, f"{component}/{DRIVER}")
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    found = faults.reports(directory, state, entries)
    assert [(report.matched, report.fired) for report in found] == [(7, 3), (5, 0), (7, 7)]
    assert found[0].seen == {"get nodes": 4, "list driver": 1, "list driver-controller": 1}
    assert found[1].seen == {"get nodes": 2, "list driver": 1}


def test_a_fault_of_a_process_that_is_not_there_is_refused(state):
    """The error names what there is, and what may have been meant."""
    with pytest.raises(UserError, match=f"did you mean driver-plugin/{DRIVER}"):
        faults.added(state, FaultPlan(), {"component": f"driver-plugin/{DRIVER}x", "answer": 500})


@pytest.mark.parametrize(
    ("fault", "state_shown"),
    [
        ({"outage": True}, "armed"),
        ({"answer": 500}, "armed"),
        ({"verb": "update", "crash": "after"}, "armed"),
        (
            {"verb": "update", "crash": "after", "user": "admin"},
            "cannot fire: apiserver is kube-apiserver v1.36.3, and ",
        ),
    ],
)
def test_a_fault_that_a_real_program_cannot_have(tmp_path, state, fault, state_shown):
    """One that was set while the component was emulated is shown as one that cannot fire, with the reason."""
    directory = StateDir(tmp_path)
    directory.faults.mkdir()
    _, entry = faults.added(state, FaultPlan(), {"component": "apiserver", "id": "f", **fault})
    [before] = faults.reports(directory, state, [entry])
    state.processes["apiserver"].program = RunningProgram("/bin/kube-apiserver", "v1.36.3")
    [after] = faults.reports(directory, state, [entry])
    assert before.state == "armed"
    assert after.as_json()["state"].startswith(state_shown)
    assert ("cannot fire" in after.missing()) == (state_shown != "armed")

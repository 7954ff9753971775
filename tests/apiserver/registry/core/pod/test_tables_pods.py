"""The cells of a Pod's row."""

from typing import Any

import pytest
from table_rows import TWO_HOURS_AGO, row, table

RUNNING = {"state": {"running": {"startedAt": TWO_HOURS_AGO}}}
COMPLETED = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
FAILED = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
READY = {"type": "Ready", "status": "True"}
INITIALIZED = {"type": "Initialized", "status": "True"}
NODE_LOST = {"reason": "NodeLost", "phase": "Running"}
SIDECAR = {"name": "side", "restartPolicy": "Always"}


def pod(*containers: dict[str, Any], init: tuple = (), inits: tuple = (), **status: Any) -> dict[str, Any]:
    """A pod with these container statuses; `init` are the init containers, `inits` their statuses."""
    return {
        "spec": {"containers": [{"name": "c"}] * max(len(containers), 1), "initContainers": list(init)},
        "status": {
            "phase": "Running",
            "containerStatuses": list(containers),
            "initContainerStatuses": list(inits),
            **status,
        },
    }


def state(**terminated: Any) -> dict[str, Any]:
    return {"state": {"terminated": terminated}}


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("obj", "ready", "status"),
    [
        (pod(phase="Pending"), "0/1", "Pending"),
        (pod(phase="Failed", reason="Evicted"), "0/1", "Evicted"),
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            "0/1",
            "SchedulingGated",
        ),
        (pod({"ready": True, **RUNNING}), "1/1", "Running"),
        (pod({"ready": True, **RUNNING}, RUNNING), "1/2", "Running"),
        (pod(waiting("ContainerCreating"), phase="Pending"), "0/1", "ContainerCreating"),
        (pod(waiting("ErrImagePull"), waiting("CrashLoopBackOff")), "0/2", "ErrImagePull"),
        (pod(COMPLETED, phase="Succeeded"), "0/1", "Completed"),
        (pod(state(exitCode=3), phase="Failed"), "0/1", "ExitCode:3"),
        (pod(state(exitCode=137, signal=9), phase="Failed"), "0/1", "Signal:9"),
        (pod(COMPLETED, {"ready": True, **RUNNING}, conditions=[READY]), "1/2", "Running"),
        (pod(COMPLETED, {"ready": True, **RUNNING}), "1/2", "NotReady"),
        (pod(COMPLETED, FAILED, phase="Failed"), "0/2", "Error"),
        (pod(COMPLETED, FAILED, {"ready": True, **RUNNING}), "1/3", "Error"),
        (pod({"ready": True, **RUNNING}) | {"metadata": {"deletionTimestamp": TWO_HOURS_AGO}}, "1/1",
         "Terminating"),
        (pod(COMPLETED, phase="Succeeded") | {"metadata": {"deletionTimestamp": TWO_HOURS_AGO}}, "0/1",
         "Completed"),
        (pod(**NODE_LOST) | {"metadata": {"deletionTimestamp": TWO_HOURS_AGO}}, "0/1", "Unknown"),
    ],
)  # fmt: skip
def test_status(obj: dict, ready: str, status: str):
    """The one word that shows most."""
    cells = row("v1 Pod", obj)
    assert (cells["Ready"], cells["Status"]) == (ready, status)


@pytest.mark.parametrize(
    ("inits", "ready", "status"),
    [
        (({"name": "a"},), "0/2", "Init:0/2"),
        (({"name": "a", **COMPLETED},), "0/2", "Pending"),
        (({"name": "a", **COMPLETED}, {"name": "side"}), "0/2", "Init:1/2"),
        (({"name": "a", **COMPLETED}, {"name": "side", "started": True, "ready": True}), "1/2", "Pending"),
        (({"name": "a", **COMPLETED}, {"name": "side", "started": True}), "0/2", "Pending"),
        (({"name": "a", **waiting("PodInitializing")},), "0/2", "Init:0/2"),
        (({"name": "a", **waiting("CrashLoopBackOff")},), "0/2", "Init:CrashLoopBackOff"),
        (({"name": "a", **FAILED},), "0/2", "Init:Error"),
        (({"name": "a", **state(exitCode=2)},), "0/2", "Init:ExitCode:2"),
        (({"name": "a", **state(exitCode=2, signal=15)},), "0/2", "Init:Signal:15"),
    ],
)
def test_init_containers(inits: tuple, ready: str, status: str):
    """The first that is not done decides; those that keep running count as containers."""
    cells = row("v1 Pod", pod(init=({"name": "a"}, SIDECAR), inits=inits, phase="Pending"))
    assert (cells["Ready"], cells["Status"]) == (ready, status)


def test_an_initialized_pod_shows_its_containers():
    """A sidecar that crashes later does not hide them."""
    inits = ({"name": "side", **waiting("CrashLoopBackOff")},)
    obj = pod(waiting("ImagePullBackOff"), init=(SIDECAR,), inits=inits, conditions=[INITIALIZED])
    assert row("v1 Pod", obj)["Status"] == "ImagePullBackOff"


def ended(count: int, minute: int) -> dict[str, Any]:
    last = {"terminated": {"exitCode": 1, "finishedAt": f"2026-07-01T11:{minute:02}:00Z"}}
    return {"restartCount": count, "lastState": last}


@pytest.mark.parametrize(
    ("obj", "restarts"),
    [
        (pod(RUNNING), "0"),
        (pod({"restartCount": 2, **RUNNING}), "2"),
        (pod({**ended(2, 30), **RUNNING}, {**ended(1, 45), **RUNNING}), "3 (15m ago)"),
        (pod(init=({"name": "a"},), inits=({"name": "a", **ended(4, 50)},)), "4 (10m ago)"),
        (pod(RUNNING, init=({"name": "a"},), inits=({"name": "a", **ended(4, 50), **COMPLETED},)), "0"),
        (
            pod(RUNNING, init=(SIDECAR,), inits=({"name": "side", "started": True, **ended(4, 50)},)),
            "4 (10m ago)",
        ),
    ],
)
def test_restarts(obj: dict, restarts: str):
    """Of init containers only while they run, or as long as they run; with the time of the newest."""
    assert row("v1 Pod", obj)["Restarts"] == restarts


def test_wide_cells():
    """The wide columns of a pod show its addresses, its nodes and how many readiness gates are open."""
    obj = {
        "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
        "status": {
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "nominatedNodeName": "m",
            "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
        },
    }
    cells = row("v1 Pod", obj)
    wide = [cells[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")]
    assert wide == ["10.0.0.1", "n", "m", "1/2"]
    empty = row("v1 Pod", {})
    assert {empty[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")} == {"<none>"}


@pytest.mark.parametrize(
    ("phase", "message"),
    [("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed.")],
)
def test_rows_of_finished_pods_say_so(phase: str, message: str):
    """Clients hide such rows by a condition, which no other row has."""
    rows = table("v1", "Pod", pod(phase=phase), pod())["rows"]
    assert rows[0]["conditions"] == [
        {"type": "Completed", "status": "True", "reason": phase, "message": message}
    ]
    assert "conditions" not in rows[1]

"""Plans of faults that are played: what each kind does to a run, and that a plan does the same again."""

from pathlib import Path
from typing import Any

import pytest
from played_cells import (
    DRIVER,
    KUBELET,
    MANAGER,
    SCENARIO,
    SCHEDULER,
    cell,
    moments,
    play,
    played,
    run,
    running_after,
    undisturbed,
)

from kubeskew.conformance import matrix
from kubeskew.conformance.evidence.log import Write
from kubeskew.simulation.faults.plan import Plan, plan_of
from kubeskew.simulation.runs import simulate


def test_a_run_without_faults_is_judged():
    """An empty plan settles, breaks no invariant and reaches the orders that writes come in."""
    found = played(undisturbed())
    assert (found.settled, found.violations, found.fired, found.unfired) == (True, [], {}, [])
    assert "order: pods: kube-scheduler update > kubelet update" in found.points


@pytest.mark.parametrize(
    ("fault", "point"),
    [
        (
            {"verb": "create", "resource": "resourceclaims", "answer": 500, "nth": 1},
            "error: controller-manager",
        ),
        ({"verb": "create", "resource": "resourceclaims", "drop": "request", "nth": 1}, "lost-request: "),
        ({"verb": "create", "resource": "resourceclaims", "drop": "answer", "nth": 1}, "lost-answer: "),
        ({"verb": "create", "resource": "resourceclaims", "delay": "3s", "nth": 1}, "slow: "),
        ({"event": "ADDED", "resource": "pods", "delay": "3s", "nth": 1}, "late-events: "),
        ({"event": "ADDED", "resource": "pods", "stale": "3s", "nth": 1, "times": 1}, "stale-watch: "),
        ({"event": "ADDED", "resource": "pods", "drop": "connection", "nth": 1}, "broken-watch: "),
        ({"event": "ADDED", "resource": "pods", "answer": 410, "nth": 1}, "expired-watch: "),
        ({"verb": "create", "resource": "resourceclaims", "outage": "refuse", "for": "5s"}, "partition: "),
        ({"verb": "create", "resource": "resourceclaims", "outage": "hang", "for": "5s"}, "half-open: "),
    ],
)
def test_a_fault_of_a_component_fires_where_it_is_meant(fault: dict[str, Any], point: str):
    """The controller manager meets it at the claim's creation or the pod's event, and gets over it."""
    found = played(run({"component": MANAGER, **fault}))
    met = [each for each in found.points if each.startswith(point)]
    assert len(met) == 1
    assert met[0].endswith(("create resourceclaims", "ADDED event of pods"))
    assert (found.unfired, found.violations, found.settled) == ([], [], True)


@pytest.mark.parametrize(
    ("fault", "point"),
    [
        ({"drop": "request"}, "lost-request: "),
        ({"drop": "answer"}, "lost-answer: "),
        ({"delay": "3s"}, "slow: "),
        ({"crash": "after", "back": "1s"}, "crash: "),
    ],
)
def test_a_fault_meets_a_call_of_a_driver(fault: dict[str, Any], point: str):
    """A kubelet's call of a driver that is lost, late or its last is shown as others are, and done again."""
    ran = run({"component": KUBELET, "verb": "NodePrepareResources", "nth": 1, **fault})
    met = [each for each in played(ran).points if each.startswith(point)]
    assert len(met) == 1
    assert met[0].endswith("NodePrepareResources plugins")
    assert running_after(ran) > running_after(undisturbed())
    assert (played(ran).unfired, played(ran).violations) == ([], [])


def test_a_watch_that_stands_still_for_minutes_is_outlasted():
    """Faults end only after it has gone on, though the scenario's step failed before."""
    ran = run({"component": KUBELET, "event": "ADDED", "resource": "pods", "times": 1, "stale": "400s"})
    assert played(ran).healed_because == "the scenario ended"
    assert running_after(ran) > 399.0


@pytest.mark.parametrize(
    ("component", "fault", "point"),
    [
        (
            SCHEDULER,
            {"verb": "update", "resource": "resourceclaims/status", "crash": "before"},
            "scheduler before",
        ),
        (
            MANAGER,
            {"event": "ADDED", "resource": "pods", "crash": "after", "nth": 1},
            "controller-manager after",
        ),
        (KUBELET, {"verb": "patch", "resource": "pods/status", "crash": "after"}, "kubelet after"),
        ("apiserver", {"resource": "resourceclaims", "nth": 2, "crash": "after"}, "apiserver after"),
    ],
)
def test_what_crashes_is_started_again(component: str, fault: dict[str, Any], point: str):
    """A component that dies at a write, a commit or a delivery comes back after the given time."""
    ran = run({"component": component, **fault, "back": "2s"})
    assert moments(ran, component)[:3] == ["started", "crashed", "started"]
    assert any(each.startswith(f"crash: {point}") for each in played(ran).points)
    assert running_after(ran) > running_after(undisturbed()) + 1.9
    assert played(ran).violations == []


def test_what_nobody_starts_comes_back_when_faults_are_healed():
    """Without `back` the scheduler stays down until a step fails; then it starts, and the step holds."""
    ran = run(
        {"component": SCHEDULER, "verb": "update", "resource": "resourceclaims/status", "crash": "before"}
    )
    assert moments(ran, SCHEDULER)[:3] == ["started", "crashed", "started"]
    assert played(ran).healed_because == "assert failed"
    assert played(ran).healed_at > 60.0
    assert running_after(ran) > 60.0


def test_a_process_is_killed_at_a_time():
    """The kubelet's process dies after the given time, wherever it is, and is started again."""
    ran = run({"component": KUBELET, "kill": True, "at": "0s", "back": "5s"})
    assert moments(ran, KUBELET)[:3] == ["started", "crashed", "started"]
    assert "kill: kubelet" in played(ran).points
    assert running_after(ran) > 5.0


def test_messages_take_time():
    """With a latency the pod runs later, the more the longer messages take; of one component it is less."""
    slow = run({"latency": {"usual": "50ms", "rare": "100ms", "share": 0.1}})
    slower = run({"latency": {"usual": "500ms", "rare": "1s", "share": 0.1}})
    one = run({"component": SCHEDULER, "latency": {"usual": "50ms", "rare": "100ms", "share": 0.1}})
    after = [running_after(each) for each in (undisturbed(), one, slow, slower)]
    assert after == sorted(after)
    assert 0 < played(one).fired["f1"] < played(slow).fired["f1"]


def test_the_order_of_processes_is_drawn():
    """Another seed of the plan gives another order, and so another log; the scenario holds in each."""
    hashes = {run({"order": "processes"}, seed=seed).log_hash for seed in range(3)}
    assert len(hashes | {undisturbed().log_hash}) == 4


def test_a_clock_jumps():
    """An hour later is what the API server writes after the jump; after its end time is right again."""
    ran = run({"component": "apiserver", "clockJump": "1h", "at": "0s", "for": "10s"})
    times = [each.time[11:13] for each in played(ran).log if isinstance(each, Write)]
    assert {"00", "01"} == {*times}
    assert times[-1] == "00"


def test_a_driver_misbehaves_for_a_time():
    """A driver that hangs prepares nothing until it is asked to go on; then the pod runs."""
    ran = run({"component": DRIVER, "switches": {"hang": True}, "at": "0s", "for": "20s"})
    assert played(ran).fired == {"f1": 1}
    assert running_after(ran) > 20.0


@pytest.mark.parametrize(("first", "second"), [("2s", "30s"), ("30s", "2s"), ("90s", "90s")])
def test_faults_of_a_driver_that_overlap_leave_nothing_behind(first: str, second: str):
    """A driver that two faults hang goes on when both have ended, whichever does first, and at once."""
    hang = {"component": DRIVER, "switches": {"hang": True}}
    ran = run({**hang, "at": "0s", "for": first}, {**hang, "at": "1s", "for": second})
    assert played(ran).fired == {"f1": 1, "f2": 1}
    assert played(ran).violations == []
    assert running_after(ran) > 29.0


def test_an_outage_of_the_api_server_begins_at_a_write():
    """While nobody reaches it, the scenario's own client asks again; the steps hold."""
    ran = run(
        {"component": "apiserver", "verb": "create", "resource": "pods", "outage": "refuse", "for": "8s"}
    )
    assert "outage: apiserver API server unreachable create pods" in played(ran).points
    assert running_after(ran) > 8.0


def test_a_lost_lease():
    """The scheduler's renewals are refused until its lease is over; then it leads again."""
    ran = run(
        {"component": SCHEDULER, "lostLease": True, "for": "20s"},
        {"component": DRIVER, "switches": {"hang": True}, "at": "0s", "for": "40s"},
    )
    transitions = [
        each.value["spec"].get("leaseTransitions")
        for each in played(ran).log
        if isinstance(each, Write) and each.resource.startswith("leases") and each.name == "kube-scheduler"
    ]
    assert played(ran).fired["f1"] > 1
    assert len(transitions) > 2


def test_a_scheduler_that_lost_its_lease_begins_with_nothing(tmp_path: Path):
    """A pod that fits nowhere is tried again by the next term, as by upstream's next process, though nothing
    happened that its queue would move the pod for."""
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: stuck}, "
        "spec: {nodeSelector: {a: b}, containers: [{name: c, image: busybox}]}}"
    )
    path = tmp_path / "stuck.yaml"
    path.write_text(
        f"{SCENARIO.read_text()}  - name: a pod fits nowhere\n    try:\n"
        f"    - create: {{resource: {pod}}}\n    - sleep: {{duration: 40s}}\n"
    )
    (stuck,) = matrix.of_scenarios((str(path),)).cells()

    def tries(*faults: dict[str, Any]) -> int:
        ran = play(stuck, plan_of({"seed": 0, "faults": [*faults]}))
        events = [each for each in played(ran).log if isinstance(each, Write) and each.resource == "events"]
        return sum("FailedScheduling" in str(each) and "stuck" in str(each) for each in events)

    lost = {"id": "lost", "component": SCHEDULER, "lostLease": True, "at": "10s", "for": "20s"}
    assert (tries(), tries(lost)) == (1, 2)


def test_a_fault_that_never_fires_is_reported():
    """A fault that waits for a call that never comes is named: it has shown nothing."""
    found = played(run({"component": SCHEDULER, "verb": "create", "resource": "secrets", "answer": 500}))
    assert [fault.name for fault in found.unfired] == ["f1"]


EVERYTHING = (
    {"order": "processes"},
    {"latency": {"usual": "5ms", "rare": "300ms", "share": 0.05}},
    {"component": MANAGER, "probability": 0.2, "answer": 503, "for": "5s"},
    {
        "component": SCHEDULER,
        "event": "*",
        "probability": 0.3,
        "delay": {"min": "0s", "max": "1s"},
        "for": "9s",
    },
    {"component": KUBELET, "verb": "patch", "resource": "pods/status", "crash": "after", "back": "700ms"},
    {"component": "apiserver", "nth": 9, "crash": "before", "back": "1s"},
    {"component": MANAGER, "kill": True, "at": "300ms", "back": "2s"},
    {"component": SCHEDULER, "clockJump": "-20s", "at": "100ms", "for": "3s"},
    {"component": DRIVER, "switches": {"failCalls": True}, "at": "0s", "for": "2s"},
)


def test_the_same_plan_gives_the_same_log():
    """All kinds of draws at once: the same hash, the same firings and the same points every time."""
    runs = [run(*EVERYTHING) for _ in range(2)]
    assert len({each.log_hash for each in runs}) == 1
    assert played(runs[0]).fired == played(runs[1]).fired
    assert played(runs[0]).points == played(runs[1]).points
    assert [fault.name for fault in played(runs[0]).unfired] == []


def test_a_run_that_is_not_judged_has_no_plan():
    """Without a plan nothing is judged, and the log is that of the scenario alone."""
    ran = simulate(cell(), 0, lambda _: None)
    assert ran.played is None
    assert ran.virtual_seconds < undisturbed().virtual_seconds
    assert Plan() == plan_of({"faults": []})

"""Plans of faults that are played: what each kind does to a run, and that a plan does the same again."""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cluster.failures import ClusterError
from kubeskew.conformance import matrix
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.explore.selecting import cells_named
from kubeskew.simulation.faults import control
from kubeskew.simulation.faults.plan import Plan, plan_of
from kubeskew.simulation.faults.played import Played
from kubeskew.simulation.processes import Process, SimulatedProcesses
from kubeskew.simulation.running import FaultyRun, Simulated, simulate, simulate_with_faults

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
    """A kubelet's call of a driver that is lost, late or its last is told as others are, and done again."""
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
    """A driver that hangs prepares nothing until it is told to go on; then the pod runs."""
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


@pytest.mark.parametrize(("phase", "comes"), [("Running", True), ("Failed", False)])
def test_what_comes_and_passes_while_the_cluster_comes_to_rest_is_seen(
    tmp_path: Path, phase: str, comes: bool
):
    """An assertion that failed while its pod waited is met by a phase that passes before all is at rest."""
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: brief}, spec: {restartPolicy: Never, "
        "containers: [{name: c, image: busybox, command: [sleep, '2']}]}}"
    )
    wanted = f"{{apiVersion: v1, kind: Pod, metadata: {{name: brief}}, status: {{phase: {phase}}}}}"
    path = tmp_path / "brief.yaml"
    path.write_text(
        f"{SCENARIO.read_text()}  - name: a pod runs for two seconds\n    try:\n"
        f"    - create: {{resource: {pod}}}\n    - assert: {{resource: {wanted}, timeout: 1s}}\n"
    )
    (brief,) = matrix.of_scenarios((str(path),)).cells()
    fault = {"id": "f", "component": SCHEDULER, "verb": "create", "resource": "pods/binding"}

    ran = play(brief, plan_of({"seed": 0, "faults": [{**fault, "nth": 2, "crash": "before", "back": "5s"}]}))

    assert ran.played is not None
    assert (ran.played.fired, ran.played.healed_because[:6]) == ({"f": 1}, "assert")
    assert ran.result.passed == comes
    assert ("expected 'Failed', found 'Succeeded'" in ran.result.failure) != comes


def test_a_failure_that_a_mark_tells_of_ends_no_faults():
    """An operation that is expected to fail is not done again: the node would follow then."""
    (found,) = cells_named(["classic/checkpoint/1.30-1.31"], {})
    ran = play(found, Plan())
    assert played(ran).healed_because == "the scenario ended"
    assert [step.failed for step in ran.result.steps] == [False, True, False, False]


def test_a_scheduler_that_has_not_begun_is_told(tmp_path: Path):
    """Of a pod that waits I04 says that the scheduler, which was started anew, waits for what the API server
    no longer serves."""
    path = tmp_path / "unserved.yaml"
    path.write_text(
        "apiVersion: kubeskew.io/v1alpha1\nkind: Scenario\n"
        "spec: {cluster: {version: 1.25+kep3063, nodes: [{name: node}]}}\n---\n"
        "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: unserved}\nspec:\n  steps:\n"
        "  - name: a pod waits\n    try:\n"
        "    - gates: {set: {DynamicResourceAllocation: false}, components: [apiserver]}\n"
        "    - sleep: {duration: 20s}\n"
        "    - create: {resource: {apiVersion: v1, kind: Pod, metadata: {name: p}, "
        "spec: {containers: [{name: c, image: busybox}]}}}\n"
    )
    (unserved,) = matrix.of_scenarios((str(path),)).cells()

    killed = {"id": "f", "component": SCHEDULER, "kill": True, "at": "5s", "back": "1s"}
    ran = play(unserved, plan_of({"seed": 0, "faults": [killed]}))

    lists = "resourceclaims.v1alpha1.cdi.k8s.io, resourceclasses.v1alpha1.cdi.k8s.io"
    (told,) = [violation.message for violation in played(ran).violations if violation.code == "I04"]
    assert told.partition("; ")[2] == (
        f"the scheduler is not ready: informers: the API server cannot list {lists}, leading: not leading"
    )


def test_controllers_that_go_round_are_not_awaited_for_long(monkeypatch: pytest.MonkeyPatch):
    """A claim controller that writes a pod's status without an end has shown after so many writes that the
    cluster does not settle; what must never happen is judged."""
    monkeypatch.setattr(control, "_SETTLE_WRITES", 100)
    (found,) = cells_named(["known-bugs/k8s-138407/1.36"], {})

    ran = play(found, Plan())

    assert ran.played is not None
    assert not ran.played.settled
    assert ran.virtual_seconds < 120.0
    assert {each.code for each in ran.played.violations} == {"I15"}


@pytest.mark.parametrize("fires", [True, False])
def test_what_a_process_counted_is_not_judged_where_faults_fired(tmp_path: Path, fires: bool):
    """A counter, which begins anew with a process, tells of the way there, that faults change."""
    path = tmp_path / "counting.yaml"
    counter = (
        "metric: {component: scheduler, name: scheduler_schedule_attempts_total, atLeast: 99, timeout: 2s}"
    )
    path.write_text(f"{SCENARIO.read_text()}  - name: counts\n    try: [{counter}]\n")
    (counting,) = matrix.of_scenarios((str(path),)).cells()
    fault = {"id": "f", "component": SCHEDULER, "verb": "create", "resource": "pods/binding"}
    plan = {"seed": 0, "faults": [{**fault, "nth": 1 if fires else 99, "crash": "after", "back": "1s"}]}

    ran = play(counting, plan_of(plan))

    assert ran.result.passed == fires
    assert ran.played is not None
    noted = [note for note in ran.played.notes if "scheduler_schedule_attempts_total" in note]
    assert (len(noted), len(ran.played.notes)) == (fires, fires)


@pytest.mark.parametrize("fires", [True, False])
def test_a_scenarios_own_fault_may_find_its_call_taken(fires: bool, tmp_path: Path):
    """A fault of the scenario that never fires fails its step, but where one of the plan has fired."""
    fault = "{component: controller-manager, verb: create, resource: resourceclaims, nth: 2, crash: before}"
    path = tmp_path / "own.yaml"
    path.write_text(SCENARIO.read_text().replace("    try:\n", f"    try:\n    - fault: {fault}\n", 1))
    (own,) = matrix.of_scenarios((str(path),)).cells()
    plan = {"component": KUBELET, "verb": "patch", "resource": "pods/status", "answer": 500}

    ran = play(own, plan_of({"seed": 0, "faults": [{"id": "f", **plan, "nth": 1 if fires else 99}]}))

    assert ("never fired" in ran.result.failure, ran.result.passed) == (not fires, fires), ran.result.failure


def test_faults_are_not_put_into_what_is_not_back_yet(tmp_path: Path):
    """A scenario with a fault of its own may end while a component is down, which reads the plan later."""
    fault = "{component: scheduler, verb: create, resource: pods, subresource: binding, nth: 9, answer: 500}"
    path = tmp_path / "own.yaml"
    path.write_text(SCENARIO.read_text().replace("    try:\n", f"    try:\n    - fault: {fault}\n", 1))
    (own,) = matrix.of_scenarios((str(path),)).cells()
    plan = {"component": SCHEDULER, "verb": "create", "resource": "pods/binding", "nth": 1}

    ran = play(own, plan_of({"seed": 0, "faults": [{"id": "f", **plan, "crash": "after", "back": "60s"}]}))

    assert moments(ran, SCHEDULER) == ["started", "crashed", "started"]


def test_a_fault_that_a_failed_step_has_left_ends_before_what_should_come_about_is_judged(tmp_path: Path):
    """A scenario that fails before it gives the scheduler its lease back leaves a pod that waits: it is bound
    then, and the only thing that is wrong is the step."""
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: late}, spec: {containers: [{name: c, image: busybox}]}}"
    )
    path = tmp_path / "left.yaml"
    path.write_text(
        f"{SCENARIO.read_text()}  - name: the scheduler is kept from its lease\n    try:\n"
        "    - fault: {component: scheduler, lostLease: true, id: own}\n    - sleep: {duration: 30s}\n"
        f"    - create: {{resource: {pod}}}\n    - sleep: {{duration: 5s}}\n"
        f"    - error: {{resource: {pod}, timeout: 1s}}\n    - fault: {{clear: own}}\n"
    )
    (left,) = matrix.of_scenarios((str(path),)).cells()

    ran = play(left, Plan())

    assert ran.played is not None
    assert "expected no Pod of this kind" in ran.result.failure
    assert (ran.played.violations, ran.played.notes) == ([], [])
    pods = [each for each in ran.played.log if isinstance(each, Write) and each.name == "late"]
    assert pods[-1].value["status"]["phase"] == "Running"


def test_what_a_scenarios_fault_has_killed_is_back_before_what_should_come_about_is_judged(tmp_path: Path):
    """A scheduler that dies by a fault of the scenario, which does not start it again, has not ended by
    itself: it is started to be judged, and binds the pod that waits."""
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: late}, spec: {containers: [{name: c, image: busybox}]}}"
    )
    binding = "component: scheduler, verb: create, resource: pods, subresource: binding"
    path = tmp_path / "dead.yaml"
    path.write_text(
        f"{SCENARIO.read_text()}  - name: the scheduler dies\n    try:\n"
        f"    - fault: {{{binding}, nth: 1, crash: before, id: own}}\n"
        f"    - create: {{resource: {pod}}}\n    - fault: {{await: own, timeout: 10s}}\n"
        "    - sleep: {duration: 5s}\n"
    )
    (dead,) = matrix.of_scenarios((str(path),)).cells()

    ran = play(dead, Plan())

    assert moments(ran, SCHEDULER) == ["started", "crashed", "started"]
    assert played(ran).violations == []
    pods = [each for each in played(ran).log if isinstance(each, Write) and each.name == "late"]
    assert pods[-1].value["status"]["phase"] == "Running"


def test_a_process_that_dies_while_it_is_stopped_is_not_started_again(tmp_path: Path):
    """A controller manager that a fault kills as it gives its lease back has been stopped: the one that is
    started in its place stays the only one."""
    path = tmp_path / "restarted.yaml"
    path.write_text(
        f"{SCENARIO.read_text()}  - name: a restart\n    try:\n    - restart: {{component: {MANAGER}}}\n"
    )
    (restarted,) = matrix.of_scenarios((str(path),)).cells()
    crash = {"component": MANAGER, "verb": "update", "resource": "leases", "nth": 1, "crash": "after"}

    ran = play(restarted, plan_of({"seed": 0, "faults": [{"id": "crash", **crash, "back": "1s"}]}))

    assert played(ran).fired["crash"] == 1
    assert [what for what in moments(ran, MANAGER) if what != "stopped"] == ["started", "crashed", "started"]


def test_what_does_not_start_keeps_nothing_else_from_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of what a scenario's faults have killed, one that does not start is told, and the next one starts."""
    again = SimulatedProcesses.start_again

    def start_again(processes: SimulatedProcesses, former: Process) -> None:
        if former.name == MANAGER:
            raise ClusterError("it cannot start")
        again(processes, former)

    monkeypatch.setattr(SimulatedProcesses, "start_again", start_again)
    lease = "verb: update, resource: leases, nth: 1, crash: before"
    path = tmp_path / "dead.yaml"
    path.write_text(
        f"{SCENARIO.read_text()}  - name: both die\n    try:\n"
        f"    - fault: {{component: {MANAGER}, {lease}, id: first}}\n"
        "    - fault: {await: first, timeout: 10s}\n"
        f"    - fault: {{component: {SCHEDULER}, {lease}, id: second}}\n"
        "    - fault: {await: second, timeout: 10s}\n"
    )
    (dead,) = matrix.of_scenarios((str(path),)).cells()

    ran = play(dead, Plan())

    assert ran.played is not None
    assert ran.played.notes == [f"healing {MANAGER}: it cannot start"]
    changes = [each for each in ran.played.log if isinstance(each, ComponentChange)]
    assert [each.what for each in changes if each.component == SCHEDULER][-1] == "started"


def test_a_fault_that_never_fires_is_told():
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

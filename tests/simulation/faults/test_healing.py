"""The end of faults: what is healed and started again, and what is judged then."""

from pathlib import Path

import pytest
from played_cells import KUBELET, MANAGER, SCENARIO, SCHEDULER, moments, play, played

from kubeskew.cluster.failures import ClusterError
from kubeskew.conformance import matrix
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.simulation.explore.selection import cells_named
from kubeskew.simulation.faults import control
from kubeskew.simulation.faults.plan import Plan, plan_of
from kubeskew.simulation.processes import Process, SimulatedProcesses


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


def test_a_failure_that_a_mark_reports_ends_no_faults():
    """An operation that is expected to fail is not done again: the node would follow then."""
    (found,) = cells_named(["classic/checkpoint/1.30-1.31"], {})
    ran = play(found, Plan())
    assert played(ran).healed_because == "the scenario ended"
    assert [step.failed for step in ran.result.steps] == [False, True, False, False]


def test_a_scheduler_that_has_not_begun_is_reported(tmp_path: Path):
    """Of a pod that waits I04 says that the scheduler, which was started again, waits for what the API server
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
    (message,) = [violation.message for violation in played(ran).violations if violation.code == "I04"]
    assert message.partition("; ")[2] == (
        f"the scheduler is not ready: informers: the API server cannot list {lists}; leading: not leading"
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
    """A counter, which begins again with a process, shows the way there, which faults change."""
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
    """Of what a scenario's faults have killed, one that does not start is named, and the next one starts."""
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

"""Running a cell against an API server in memory, in virtual time."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import orjson
import pytest
from cell_in_memory import POD, Control, Served, run
from dask_processes import is_running
from loop_clock import LoopClock

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.clock import SeededEntropy

pytestmark = pytest.mark.looptime


async def test_a_cell_that_holds_passes():
    """Objects are created, asserted, patched and deleted; the cluster is started and stopped."""
    control = Control()
    result = await run(
        f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - assert:
        resource: {{apiVersion: v1, kind: Pod, metadata: {{labels: {{app: a}}}}}}
        outputs: [{{name: uid, value: (metadata.uid)}}]
    - patch: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a, labels: {{b: ($uid)}}}}}}}}
    - assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a, labels: {{b: ($uid)}}}}}}}}
    - delete: {{ref: {{apiVersion: v1, kind: Pod, name: a}}}}
    - error: {{resource: {{apiVersion: v1, kind: Pod}}}}
""",
        control,
    )

    assert result.failure == ""
    assert control.calls == [("start", {}), "stop"]


async def test_a_log_that_does_not_replay_is_the_cells_failure():
    """A cell whose log comes to other objects than there are has failed, even if its steps found nothing."""
    control = Control()
    control.replayed = "b"
    result = await run("\n  - name: one\n    try: [{sleep: {duration: 1s}}]\n", control)
    assert not result.passed
    assert "the log does not replay to the objects: it comes to b, not a" in result.failure


async def test_a_failed_step_has_evidence_and_ends_the_cell():
    """A failure shows what was expected, found and written since the step began; the rest is not run."""
    control = Control()
    result = await run(
        f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}, status: {{phase: Running}}}}}}
  - name: two
    try: [{{sleep: {{duration: 1h}}}}]
""",
        control,
    )

    assert result.failure == (
        "one: assert: expected a Pod as asserted; found Pod t/a: status: expected an object, found nothing"
    )
    assert result.steps[0].events == [{"revision": 2}]
    assert result.steps[1].not_run == "the step 'one' failed"
    assert (result.steps_run, result.steps_not_run) == (1, 1)
    assert result.seconds < 10
    assert control.calls[-1] == "stop"


async def test_a_component_that_came_before_a_step_is_no_evidence_of_it():
    """Its coming bears the revision that the step begins with; what comes or goes in the step is reported."""

    class Moving(Control):
        changes: ClassVar[list[str]] = ["started"]

        async def events(self, since: int) -> Sequence[Mapping[str, Any]]:
            return [{"revision": since, "verb": verb} for verb in self.changes]

    async def stop_one() -> None:
        control.changes = ["started", "stopped"]

    control = Moving()
    control.changing = stop_one
    result = await run(
        """
  - name: one
    try:
    - upgrade: {to: "1.36"}
    - assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a}}}
""",
        control,
    )

    assert [event["verb"] for event in result.steps[0].events] == ["stopped"]


async def test_an_undisturbed_pod_keeps_its_containers():
    """`undisturbed` fails when the change before it ended a pod."""
    control = Control()
    steps = f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - upgrade: {{to: "1.36"}}
    - undisturbed: {{labels: {{app: a}}, count: 1}}
"""
    assert (await run(steps, control)).failure == ""

    control = Control()

    async def fail_the_pod() -> None:
        await control.client().patch(PODS, "a", "t", {"status": {"phase": "Failed"}}, subresource="status")

    control.changing = fail_the_pod
    assert (await run(steps, control)).failure == (
        "one: undisturbed: expected Pod t/a undisturbed; found phase was nothing, is Failed"
    )


async def test_a_refused_write_can_be_expected():
    """`expect` with a check of $error turns a refusal into what is wanted, and success into a failure."""
    expect = "expect: [{check: {($error != null): true}}]"
    control = Control()
    result = await run(
        f"""
  - name: one
    try:
    - create: {{resource: {POD}}}
    - create: {{resource: {POD}, {expect}}}
    - create: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: b}}}}, {expect}}}
""",
        control,
    )
    text = "expected create of Pod t/b to be refused; found success (answered by kube-apiserver)"
    assert result.failure == f"one: create: {text}"


async def test_a_refusal_is_held_against_its_text():
    """`$error` is the whole message; a `match` that does not fit leaves the refusal a failure."""
    refused = 'pods "a" already exists'
    steps = f"""
  - name: one
    try:
    - create: {{resource: {POD}}}
    - create: {{resource: {POD}, expect: [{{check: {{($error): '%s'}}}}]}}
    - create: {{resource: {POD}, expect: [{{match: {{kind: %s}}, check: {{($error != null): true}}}}]}}
"""
    assert (await run(steps % (refused, "Pod"), Control())).failure == ""
    assert "to be answered as expected; found 409" in (await run(steps % ("other", "Pod"), Control())).failure
    assert "create of Pod t/a to succeed" in (await run(steps % (refused, "Node"), Control())).failure


async def test_an_operation_is_done_as_another_user():
    """`as` has the server take the request for that user's, with what else is known of them."""
    control = Control()
    result = await run(
        f"""
  - name: one
    try:
    - as: {{user: bob, extra: {{example.com/at: n}}}}
      create: {{resource: {POD}}}
    - patch:
        resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}, status: {{phase: Failed}}}}
        subresource: status
""",
        control,
    )
    assert result.failure == ""
    [create] = [each for each in control.server.seen if each.method == "POST" and "pods" in each.target]
    assert create.headers["Impersonate-User"] == "bob"
    assert create.headers["Impersonate-Extra-example.com%2Fat"] == "n"
    [patch] = [each for each in control.server.seen if each.method == "PATCH"]
    assert patch.target.endswith("/pods/a/status")
    assert "Impersonate-User" not in patch.headers


async def test_an_operation_goes_through_another_api_server():
    """`through` names the context of the kubeconfig that an operation takes; the next one takes the usual."""
    control = Control()
    control.contexts["other"] = other = Served(LoopClock(), SeededEntropy(1))
    result = await run(
        f"""
  - name: one
    bindings: [{{name: where, value: other}}]
    try:
    - through: ($where)
      create: {{resource: {POD}}}
    - error: {{resource: {POD}}}
""",
        control,
    )
    assert result.failure == ""
    assert [each.method for each in other.seen if "pods" in each.target] == ["POST"]


async def test_an_unknown_context_is_reported():
    """A scenario cannot be run if the kubeconfig lacks the context that it names."""
    result = await run(f"""
  - name: one
    try: [{{through: nowhere, create: {{resource: {POD}}}}}]
""", Control())  # fmt: skip
    assert "through nowhere: kubeconfig has no context 'nowhere'" in result.failure


async def test_a_pods_deletion_can_be_forced():
    """`gracePeriodSeconds: 0` is passed on; what is asserted may name its version by a binding."""
    control = Control()
    result = await run(
        f"""
  - name: one
    bindings: [{{name: version, value: v1}}]
    try:
    - apply: {{resource: {POD}}}
    - delete: {{ref: {{apiVersion: v1, kind: Pod, name: a}}, gracePeriodSeconds: 0}}
    - error: {{resource: {{apiVersion: ($version), kind: Pod}}}}
""",
        control,
    )
    assert result.failure == ""
    [delete] = [each for each in control.server.seen if each.method == "DELETE"]
    assert orjson.loads(delete.body or b"")["gracePeriodSeconds"] == 0


async def test_a_cluster_that_does_not_start_is_the_cells_failure():
    """An error outside the steps is the cell's result, and the cluster is stopped all the same."""
    control = Control()

    async def fail(cluster: Mapping[str, Any]) -> None:
        raise RuntimeError("no room")

    control.start = fail
    result = await run("  - {name: one, try: [{sleep: {duration: 1s}}]}", control)

    assert (result.passed, result.failure, control.calls) == (False, "no room", ["stop"])


@pytest.mark.looptime(False)  # a process of its own takes real time
async def test_a_script_sees_the_namespace():
    """A script runs with the cell's namespace; its output is shown when it fails."""
    steps = """
  - name: one
    try: [{script: {content: 'echo "in $NAMESPACE"; exit 3'}}]
"""
    result = await run(steps, Control())
    assert result.failure == "one: script: expected the script to exit 0; found exit 3: in t"


@pytest.mark.looptime(False)
async def test_a_script_ends_with_its_first_command_that_fails():
    """With a header a script that goes on behind a failure cannot pass."""
    result = await run("  - {name: one, try: [{script: {content: 'false\n\n\n  true'}}]}\n", Control())
    assert result.failure == "one: script: expected the script to exit 0; found exit 1: "


@pytest.mark.looptime(False)
async def test_a_script_ends_with_a_run_that_is_interrupted(tmp_path: Path):
    """An interruption kills the script that a cell waits for."""
    began = tmp_path / "began"
    os.mkfifo(began)
    script = f"echo $$ > {began}; exec sleep 1000"
    running = asyncio.create_task(
        run(f"  - {{name: one, try: [{{script: {{content: '{script}'}}}}]}}\n", Control())
    )
    pid = int(await asyncio.to_thread(began.read_text))
    assert is_running(pid)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_running(pid)


async def test_a_pod_that_is_gone_was_disturbed():
    """Without a count too: what ran before the change and is not there any more did not survive it."""
    control = Control()
    other = POD.replace("name: a", "name: b")
    steps = f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - apply: {{resource: {other}}}
    - upgrade: {{to: "1.36"}}
    - undisturbed: {{labels: {{app: a}}}}
"""

    async def end_a_pod() -> None:
        await control.client().delete(PODS, "b", "t")

    control.changing = end_a_pod
    assert (
        await run(steps, control)
    ).failure == "one: undisturbed: expected Pod t/b undisturbed; found it is gone"


async def test_what_a_scenario_has_deleted_before_a_change_is_not_missed():
    """Only pods that were there at the last change are looked for."""
    steps = f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - apply: {{resource: {POD.replace("name: a", "name: b")}}}
    - upgrade: {{to: "1.36"}}
    - delete: {{ref: {{apiVersion: v1, kind: Pod, name: b}}}}
    - upgrade: {{to: "1.37"}}
    - undisturbed: {{labels: {{app: a}}, count: 1}}
"""
    assert (await run(steps, Control())).failure == ""


async def test_assertions_wait_for_a_server_that_is_away():
    """A server that starts again within the timeout costs nothing; one that does not is what was found."""
    steps = f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - upgrade: {{to: "1.36"}}
    - assert: {{resource: {POD}}}
    - error: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: b}}}}}}
"""
    for seconds, failure in (
        (1.5, ""),
        (60.0, "one: assert: expected a Pod as asserted; found no answer: refused"),
    ):
        control = Control()

        async def go_away(control: Control = control, seconds: float = seconds) -> None:
            until = asyncio.get_running_loop().time() + seconds
            control.server.outage = lambda _: (
                aiohttp.ClientConnectionError("refused")
                if asyncio.get_running_loop().time() < until
                else None
            )

        control.changing = go_away
        assert (await run(steps, control)).failure == failure


async def test_a_cluster_that_does_not_stop_is_the_cells_failure():
    """The other cells of a matrix go on."""
    control = Control()

    async def fail() -> None:
        raise RuntimeError("it will not die")

    control.stop = fail
    result = await run("  - {name: one, try: [{sleep: {duration: 1s}}]}", control)

    assert (result.passed, result.failure) == (False, "stopping the cluster: it will not die")


async def test_an_operation_may_let_the_others_go_on():
    """With continueOnError what follows runs, in the step and after it, and the cell fails all the same."""
    result = await run(
        f"""
  - name: one
    try:
    - assert: {{resource: {POD}}}
      continueOnError: true
    - apply: {{resource: {POD}}}
  - name: two
    try:
    - assert: {{resource: {POD}}}
""",
        Control(),
    )

    assert [verdict.outcome for _, verdict in result.verdicts()] == ["failed", "passed"]
    assert result.outcome == "failed"


async def test_catch_finally_and_cleanup_run_when_they_should():
    """catch after a failure, finally after the step, cleanup at the end, of steps that began."""
    note = "observe: {{name: {0}, value: (`1`)}}"
    blocks = {name: note.format(f"{name}-one") for name in ("catch", "finally", "cleanup")}
    result = await run(
        f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    catch: [{{{blocks["catch"]}}}]
    finally: [{{{blocks["finally"]}}}]
    cleanup: [{{{blocks["cleanup"]}}}]
  - name: two
    try:
    - error: {{resource: {POD}}}
    catch: [{{observe: {{name: caught, value: (`1`)}}}}]
  - name: three
    try:
    - apply: {{resource: {POD}}}
    cleanup: [{{observe: {{name: never, value: (`1`)}}}}]
""",
        Control(),
    )

    assert list(result.observations) == ["finally-one", "caught", "cleanup-one"]
    assert [each.block for each in result.steps[0].operations] == ["try", "finally", "cleanup"]


async def test_what_is_observed_is_noted():
    """An observation evaluates its expression on the objects found, and does not fail for want of any."""
    result = await run(
        f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - observe: {{name: pods, apiVersion: v1, kind: Pod, selector: {{app: a}}, value: (length(@))}}
    - observe: {{name: none, apiVersion: v1, kind: Pod, object: absent, value: "([0].spec)"}}
""",
        Control(),
    )

    assert result.observations == {"pods": 1, "none": None}

"""Expected failures, steps that cannot be run, and what each step's verdict makes of the cell."""

from typing import Any

import pytest
from cell_in_memory import POD, Control, run

from kubeskew.cluster.failures import ClusterError
from kubeskew.conformance.results import CellResult

pytestmark = pytest.mark.looptime

MARK = "{when: (`true`), steps: [looks], found: %s, reason: as upstream, source: kubernetes/kubernetes#1}"
LOOKS = f"""
  - name: starts
    try: [{{apply: {{resource: {POD}}}}}]
  - name: looks
    try:
    - assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}, status: {{phase: Running}}}}}}
    - apply: {{resource: {POD.replace("name: a", "name: behind")}}}
    catch: [{{observe: {{name: caught, value: (`1`)}}}}]
    finally: [{{observe: {{name: finally, value: (`1`)}}}}]
    cleanup: [{{observe: {{name: cleaned, value: (`1`)}}}}]
  - name: goes on
    try: [{{apply: {{resource: {POD.replace("name: a", "name: b")}}}}}]
    cleanup: [{{observe: {{name: never, value: (`1`)}}}}]
"""


def header(*marks: str, exempt: str = "") -> str:
    listed = f", notRun: [{exempt}]" if exempt else ""
    return f"{{cluster: {{}}, expectedFailures: [{', '.join(marks)}]{listed}}}"


def outcomes(result: CellResult) -> list[Any]:
    return [verdict.outcome for _, verdict in result.verdicts()]


async def test_steps_behind_an_expected_failure_are_run():
    """A failure that the file reports stops its step alone; the others have verdicts of their own."""
    result = await run(LOOKS, Control(), header(MARK % "'expected an object, found nothing'"))

    assert (result.outcome, result.failure) == ("expected", "")
    assert outcomes(result) == ["passed", "expected", "passed"]
    assert (result.steps_run, result.steps_not_run) == (3, 0)
    assert [operation.outcome for operation in result.steps[1].operations][:2] == ["failed", "notRun"]


async def test_after_an_unexpected_failure_only_cleaning_up_is_done():
    """catch, finally and cleanup of the steps that began run; the steps behind are counted as not run."""
    result = await run(LOOKS, Control(), header(MARK % "another failure"))

    assert result.outcome == "failed"
    assert result.failure == (
        "looks: assert: expected a Pod as asserted; found Pod t/a: status: expected an object, found nothing"
    )
    assert outcomes(result) == ["passed", "failed", "notRun"]
    assert list(result.observations) == ["caught", "finally", "cleaned"]
    assert (result.steps_run, result.steps_not_run) == (2, 1)


async def test_a_failure_that_no_longer_comes_is_red():
    """A mark claims a failure: where the step holds, the mark is wrong; the steps behind run all the same."""
    steps = LOOKS.replace("status: {phase: Running}", "spec: {}")
    result = await run(steps, Control(), header(MARK % "nothing"))

    assert result.failure == "looks: passed, though it was expected to fail: as upstream"
    assert outcomes(result) == ["passed", "failed", "passed"]


@pytest.mark.parametrize(
    ("marks", "outcome"),
    [
        (["status: expected", "spec.x: expected"], "expected"),
        (["status: expected"], "failed"),
        (["status: expected", "spec.x: expected", "spec.y: expected"], "failed"),
    ],
)
async def test_every_failure_of_a_step_needs_its_mark(marks: list[str], outcome: str):
    """Of several failures in one step each must be marked, and each mark must be met."""
    steps = LOOKS.replace(
        f"    - apply: {{resource: {POD.replace('name: a', 'name: behind')}}}\n",
        "      continueOnError: true\n"
        "    - assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {x: 1}}}\n",
    )
    result = await run(steps, Control(), header(*(MARK % f"'{found}'" for found in marks)))

    assert result.outcome == outcome


async def test_a_step_without_its_binding_is_not_run():
    """A step without its binding is red, unless the header lists it; what comes after it is run."""
    steps = f"""
  - name: looks
    try:
    - assert:
        resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}}}
        outputs: [{{name: uid, value: (metadata.uid)}}]
  - name: uses what was found
    try: [{{assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{uid: ($uid)}}}}}}}}]
  - name: does not
    try: [{{apply: {{resource: {POD}}}}}]
"""
    mark = MARK % "no Pod at all"
    exempt = "{when: (`true`), steps: [uses what was found], reason: there is no pod}"
    result = await run(steps, Control(), header(mark))

    assert result.failure == "uses what was found: was not run: nothing was bound to $uid"
    assert outcomes(result) == ["expected", "notRun", "passed"]
    assert (await run(steps, Control(), header(mark, exempt=exempt))).outcome == "expected"


async def test_a_step_that_is_listed_as_not_run_must_not_run():
    """A list that is out of date is as red as a mark that is."""
    exempt = "{when: (`true`), steps: [goes on], reason: there is no pod}"
    result = await run(LOOKS, Control(), header(MARK % "nothing", exempt=exempt))

    assert result.failure == "goes on: was run, though notRun lists it: there is no pod"


async def test_a_step_is_not_run_without_the_step_that_it_needs():
    """`needs` names an earlier step, which must have passed."""
    steps = LOOKS.replace("  - name: goes on\n", "  - name: goes on\n    needs: looks\n")
    result = await run(steps, Control(), header(MARK % "nothing"))

    assert result.failure == "goes on: was not run: it needs the step 'looks', which failed"
    kept = await run(steps.replace("needs: looks", "needs: [starts]"), Control(), header(MARK % "nothing"))
    assert kept.outcome == "expected"


async def test_what_a_failed_operation_would_have_bound_is_unbound():
    """The value that an earlier step bound to the name is not the one that is meant."""
    looks = "    - assert:\n        resource: %s\n        outputs: [{name: uid, value: (metadata.uid)}]\n"
    steps = f"""
  - name: starts
    try:
    - apply: {{resource: {POD}}}
{looks % POD}
  - name: looks
    try:
{looks % POD.replace("name: a", "name: b")}
  - name: uses
    try: [{{assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{uid: ($uid)}}}}}}}}]
"""
    result = await run(steps, Control(), header(MARK % "no Pod at all"))

    assert result.failure == "uses: was not run: nothing was bound to $uid"


async def test_an_operation_without_its_binding_makes_the_step_red():
    """An operation that succeeds without binding leaves those behind it undone, and that is reported."""
    steps = """
  - name: looks
    try:
    - error:
        resource: {apiVersion: v1, kind: Pod}
        outputs: [{name: uid, value: (metadata.uid)}]
    - assert: {resource: {apiVersion: v1, kind: Pod, metadata: {uid: ($uid)}}}
"""
    result = await run(steps, Control())

    assert result.failure == "looks: assert: was not run: nothing was bound to $uid"


async def test_a_cluster_that_does_not_follow_is_the_steps_failure():
    """Upstream's components refuse to start, too: a mark can report it, and the other steps are run."""
    control = Control()

    async def refuse() -> None:
        raise ClusterError("kubelet-1 did not become ready: cannot unmarshal checkpoint")

    control.changing = refuse
    steps = """
  - name: looks
    try: [{upgrade: {to: "1.36"}}]
  - name: goes on
    try: [{error: {resource: {apiVersion: v1, kind: Pod}}}]
"""
    result = await run(steps, control, header(MARK % "cannot unmarshal checkpoint"))

    assert (result.outcome, outcomes(result)) == ("expected", ["expected", "passed"])


async def test_a_defect_is_never_expected():
    """No mark makes a failure green that is the scenario's own or ours; the cleanup runs all the same."""
    control = Control()

    async def break_down() -> None:
        raise ZeroDivisionError("nothing was expected")

    control.changing = break_down
    steps = """
  - name: looks
    try: [{upgrade: {to: "1.36"}}]
    cleanup: [{observe: {name: cleaned, value: (`1`)}}]
"""
    result = await run(steps, control, header(MARK % "nothing was expected"))

    assert result.outcome == "failed"
    assert "ZeroDivisionError: nothing was expected" in result.failure
    assert result.observations == {"cleaned": 1}


async def test_a_cluster_that_does_not_start_leaves_every_step_counted():
    """Steps that never began are not run, and none of them is lost from the report."""
    control = Control()

    async def fail(cluster: Any) -> None:
        raise RuntimeError("no room")

    control.start = fail
    result = await run(LOOKS, control)

    assert (result.outcome, result.failure) == ("failed", "no room")
    assert (result.steps_run, result.steps_not_run) == (0, 3)

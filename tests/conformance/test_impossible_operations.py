"""Operations that cannot be done to a real program: the verdicts of their steps and of those behind."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from cell_in_memory import HEAD, POD, Control, run

from kubeskew.conformance.errors import ImpossibleError
from kubeskew.conformance.loader import parse
from kubeskew.conformance.report import Run, as_json, as_junit
from kubeskew.conformance.reporting.junit import remarks
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resumption import restored

pytestmark = pytest.mark.looptime

REASON = "kube-scheduler v1.36.3 runs here, and it has no such switch"
SWITCH = "driver: {name: gpu, refusePrepare: true}"
RUNNING = "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a}, status: {phase: Running}}}"
NAMED = "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: ($name)}}}"
BEHIND = f"it is behind the step 'switches', which was not run: {REASON}, so that this shows nothing: "


class Real(Control):
    """A cluster whose driver is a real program."""

    async def driver(self, name: str, nodes: Sequence[str], switches: Mapping[str, Any]) -> None:
        raise ImpossibleError(REASON)


class Unlike(Control):
    """A cluster that cannot be as the scenario wants it."""

    async def start(self, cluster: Mapping[str, Any]) -> None:
        raise ImpossibleError(REASON)


STEPS = f"""
  - name: starts
    try: [{{apply: {{resource: {POD}}}}}]
  - name: switches
    try:
    - {SWITCH}
    - apply: {{resource: {POD.replace("name: a", "name: b")}}}
    cleanup: [{{observe: {{name: cleaned, value: (`1`)}}}}]
"""


def step(name: str, *operations: str) -> str:
    return f"  - name: {name}\n    try: [{', '.join(f'{{{each}}}' for each in operations)}]\n"


def found(result: CellResult) -> list[tuple[str, bool, str]]:
    return [(verdict.outcome, verdict.red, verdict.why) for _, verdict in result.verdicts()]


async def test_what_a_real_program_cannot_do_is_not_run():
    """Its step is neither red nor passed; what is behind in it is not run, what it began is cleaned up."""
    result = await run(
        STEPS + step("goes on", f"apply: {{resource: {POD.replace('name: a', 'name: c')}}}"), Real()
    )

    assert found(result) == [("passed", False, ""), ("notRun", False, REASON), ("passed", False, "")]
    assert (result.outcome, result.steps_run, result.steps_not_run) == ("passed", 2, 1)
    assert [(each.outcome, each.not_run) for each in result.steps[1].operations[:2]] == [
        ("notRun", REASON)
    ] * 2
    assert result.observations == {"cleaned": 1}
    assert f"switches: not run: {REASON}" in remarks(
        as_json(Run("r", datetime(2026, 1, 1, tzinfo=UTC), [result]))["cells"][0]
    )


SLEEPS = step("goes on", "sleep: {duration: 1s}")
MARK = (
    "expectedFailures: [{when: (`true`), steps: [goes on, switches], found: no such, reason: r, source: s}]"
)
EXEMPT = "notRun: [{when: (`true`), steps: [switches], reason: r}]"
NOTHING = "assert: expected a Pod as asserted; found Pod t/a: status: expected an object, found nothing"


@pytest.mark.parametrize(
    ("header", "needs", "behind", "outcome", "why"),
    [
        ("", True, SLEEPS, "notRun", f"it needs the step 'switches', which was not run: {REASON}"),
        ("", False, step("goes on", RUNNING), "notRun", BEHIND + NOTHING),
        (MARK, False, SLEEPS, "notRun", f"{BEHIND}passed, though it was expected to fail: r"),
        (EXEMPT, False, SLEEPS, "passed", ""),
    ],
)
async def test_what_is_behind_it_does_not_make_the_cell_red(header, needs, behind, outcome, why):
    """A step that needs it, or fails for want of it, or lacks its marked failure, is not run and says why."""
    steps = STEPS + (behind.replace("    try:", "    needs: [switches]\n    try:") if needs else behind)
    result = await run(steps, Real(), f"{{cluster: {{}}{header and f', {header}'}}}")

    assert found(result)[1:] == [("notRun", False, REASON), (outcome, False, why)]
    assert result.passed


async def test_what_it_would_have_bound_is_missing_for_that_reason():
    """Steps and operations that use a name which a real program left unbound are not run, in a chain."""
    output = "outputs: [{name: name, value: (metadata.name)}]"
    binding = f"assert: {{resource: {{apiVersion: v1, kind: Pod}}, {output}}}"
    result = await run(
        step("switches", SWITCH, binding)
        + step("uses", NAMED[:-1] + ", outputs: [{name: other, value: (metadata.name)}]}")
        + step("uses that", NAMED.replace("$name", "$other")),
        Real(),
    )

    assert found(result) == [
        ("notRun", False, REASON),
        ("notRun", False, f"nothing was bound to $name: {REASON}"),
        ("notRun", False, f"nothing was bound to $other: {REASON}"),
    ]
    assert result.outcome == "notRun"


async def test_a_failure_before_it_stays_a_failure():
    """A failure in the step before the operation that a real program cannot do is red as ever."""
    failing = RUNNING[:-1] + ", timeout: 1s}"
    steps = f"""
  - name: one
    try:
    - {{{failing}, continueOnError: true}}
    - {SWITCH}
"""
    result = await run(steps, Real())
    assert [outcome for outcome, *_ in found(result)] == ["failed"]


async def test_a_cluster_that_cannot_be_so_runs_no_step():
    """A cluster that cannot be as the file wants it runs no step, and its cell did not fail."""
    control = Unlike()
    result = await run(STEPS, control)

    assert found(result) == [("notRun", False, REASON)] * 2
    assert (result.outcome, result.error, control.calls) == ("notRun", "", ["stop"])
    junit = as_junit(Run("r", datetime(2026, 1, 1, tzinfo=UTC), [result])).decode()
    assert 'skipped="1"' in junit
    assert 'failures="0"' in junit


async def test_a_report_keeps_the_reasons():
    """A result that is restored from a report has the same verdicts."""
    steps = STEPS + step("goes on", RUNNING)
    result = await run(steps, Real())
    report = json.loads(json.dumps(as_json(Run("r", datetime(2026, 1, 1, tzinfo=UTC), [result]))))
    [cell] = parse(list(yaml.safe_load_all(HEAD % "{cluster: {}}" + steps)), "file").cells()

    again = restored(cell, report["cells"][0])
    assert found(again) == found(result)

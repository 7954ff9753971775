"""Runs one cell: cluster, namespace, steps in order, and the evidence of how it went."""

import traceback
from collections.abc import Awaitable, Callable, Mapping

from kubeskew.apimachinery.client.refs import NAMESPACES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.component_runs import component_runs
from kubeskew.conformance.evidence.fault_moments import fault_moments
from kubeskew.conformance.evidence.lives import pod_lives
from kubeskew.conformance.evidence.record import record
from kubeskew.conformance.kinds import Kinds
from kubeskew.conformance.operations import (
    checks,
    cluster,
    commands,
    disturbance,
    faults,
    logs,
    measuring,
    metrics,
    objects,
    preparing,
    simulating,
)
from kubeskew.conformance.performing import Perform, missing, perform_block, perform_step, unbind
from kubeskew.conformance.results import CellResult, StepResult
from kubeskew.conformance.scenario import Cell, Step

# What runs each operation of conformance/grammar.py.
RUN: Mapping[str, Perform] = {
    "apply": objects.apply,
    "create": objects.create,
    "patch": objects.patch,
    "delete": objects.delete,
    "assert": checks.assert_,
    "error": checks.error,
    "wait": checks.wait,
    "undisturbed": disturbance.undisturbed,
    "prepared": preparing.prepared,
    "observe": measuring.observe,
    "metric": metrics.metric,
    "podLogs": logs.pod_logs,
    "logs": logs.logs,
    "simulate": simulating.simulate,
    "script": commands.script,
    "sleep": commands.sleep,
    "upgrade": cluster.upgrade,
    "downgrade": cluster.downgrade,
    "move": cluster.move,
    "gates": cluster.gates,
    "restart": cluster.restart,
    "kill": cluster.kill,
    "driver": cluster.driver,
    "fault": faults.fault,
}

Progress = Callable[[str], None]


async def run_cell(
    cell: Cell,
    control: ClusterControl,
    clock: Clock,
    progress: Progress,
    run: Mapping[str, Perform] = RUN,
) -> CellResult:
    """Start the cell's cluster, run its steps, end the cluster. Never raises for what the cell finds.

    `run` performs the operations, by their names.
    """
    result = CellResult(
        cell.name,
        cell.scenario.name,
        cell.parameters,
        expected_failures=cell.expected_failures(),
        exemptions=cell.exemptions(),
        baseline=cell.baseline,
    )
    started = clock.monotonic()
    try:
        if cell.scenario.cluster is not None:
            progress("starting the cluster")
            await _noting_errors(result, _start(cell, control))
        if not result.error:
            await _noting_errors(result, _run_steps(cell, control, clock, progress, run, result))
            await _noting_errors(result, _gather_evidence(control, result))
    finally:
        if cell.scenario.cluster is not None:
            await _stop(control, result)
    for step in cell.steps()[len(result.steps) :]:
        result.steps.append(StepResult(step.name, not_run="the cell ended before it"))
    result.seconds = clock.monotonic() - started
    return result


async def _start(cell: Cell, control: ClusterControl) -> None:
    await control.start(cell.cluster())


async def _noting_errors(result: CellResult, work: Awaitable[None]) -> None:
    """Await it; what goes wrong is the cell's failure, not the matrix'. The first error counts."""
    try:
        await work
    except (ScenarioError, StatusError, *CONNECTION_ERRORS) as error:
        result.error = result.error or f"{type(error).__name__}: {error}"
    except Exception as error:
        result.error = result.error or f"{error}" or traceback.format_exc()


async def _stop(control: ClusterControl, result: CellResult) -> None:
    try:
        await control.stop()
    except Exception as error:  # the other cells go on
        if result.passed:
            result.error = f"stopping the cluster: {error}"


async def _gather_evidence(control: ClusterControl, result: CellResult) -> None:
    """Gathers what the log says of the whole cell, before its cluster is removed."""
    log = await control.log()
    if log:
        result.began, result.ended = log[0].time, log[-1].time
    result.components = component_runs(log)
    result.pods = pod_lives(log)
    result.faults = fault_moments(log)
    result.record = record(log, [step.revisions[1] for step in result.steps if not step.not_run])


async def _run_steps(
    cell: Cell,
    control: ClusterControl,
    clock: Clock,
    progress: Progress,
    run: Mapping[str, Perform],
    result: CellResult,
) -> None:
    """Run every step that can be run; after a failure that is not expected, only what cleans up."""
    client = control.client()
    others: dict[str, APIClient] = {}
    try:
        bindings = cell.bindings()
        namespace = bindings["namespace"]
        ctx = CellContext(control, client, Kinds(client), clock, namespace, bindings, cell.scenario.timeouts)
        ctx.observations, ctx.clients = result.observations, others
        await _create_namespace(ctx)
        done: list[tuple[Step, StepResult]] = []
        after = ""
        for step in cell.steps():
            if why := after or missing(ctx, step, done):
                unbind(ctx, step.operations)
                outcome = StepResult(step.name, not_run=why)
            else:
                progress(step.name)
                outcome = await perform_step(ctx, step, run)
            done.append((step, outcome))
            result.steps.append(outcome)
            if outcome.stops and result.verdict(outcome).red:
                after = f"the step {step.name!r} failed"
        try:
            if not after:
                await _expect_faults(ctx)
        finally:
            for step, outcome in reversed(done):
                if not outcome.not_run:
                    await perform_block(ctx, step.cleanup, "cleanup", outcome, run)
    finally:
        for each in (client, *others.values()):
            await each.close()


async def _expect_faults(ctx: CellContext) -> None:
    """Fail the steps whose faults never fired."""
    for report in await faults.unfired(ctx):
        ctx.faults[report.fault.id].operations.append(faults.failure(report))


async def _create_namespace(ctx: CellContext) -> None:
    try:
        await ctx.client.create(NAMESPACES, {"metadata": {"name": ctx.namespace}})
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise

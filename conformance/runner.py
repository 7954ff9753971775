"""Runs one cell: cluster, namespace, steps in order, and the evidence of how it went."""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.refs import NAMESPACES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.lives import pod_lives
from kubeskew.conformance.evidence.record import record
from kubeskew.conformance.evidence.stretches import stretches
from kubeskew.conformance.kinds import Kinds
from kubeskew.conformance.operations import checks, cluster, commands, disturbance, logs, measuring, objects
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.scenario import Cell, Operation, Step

RUN: Mapping[str, Callable[[CellContext, Operation], Awaitable[None]]] = {
    "apply": objects.apply,
    "create": objects.create,
    "patch": objects.patch,
    "delete": objects.delete,
    "assert": checks.assert_,
    "error": checks.error,
    "wait": checks.wait,
    "undisturbed": disturbance.undisturbed,
    "prepared": disturbance.prepared,
    "observe": measuring.observe,
    "metric": measuring.metric,
    "podLogs": logs.pod_logs,
    "script": commands.script,
    "sleep": commands.sleep,
    "upgrade": cluster.upgrade,
    "downgrade": cluster.downgrade,
    "gates": cluster.gates,
    "restart": cluster.restart,
    "kill": cluster.kill,
    "driver": cluster.driver,
}

Progress = Callable[[str], None]


async def run_cell(cell: Cell, control: ClusterControl, clock: Clock, progress: Progress) -> CellResult:
    """Start the cell's cluster, run its steps, end the cluster. Never raises for what the cell finds."""
    result = CellResult(
        cell.name,
        cell.scenario.name,
        cell.parameters,
        expected_failures=cell.expected_failures(),
        baseline=cell.baseline,
    )
    started = clock.monotonic()
    try:
        if cell.scenario.cluster is not None:
            progress("starting the cluster")
            await control.start(bind(dict(cell.scenario.cluster), dict(cell.parameters)))
        await _run_steps(cell, control, clock, progress, result)
        await _gather_evidence(control, result)
    except (ScenarioError, StatusError, *CONNECTION_ERRORS) as error:
        result.error = f"{type(error).__name__}: {error}"
    except Exception as error:  # the cluster's own failures are the cell's, not the matrix'
        result.error = f"{error}" or traceback.format_exc()
    finally:
        if cell.scenario.cluster is not None:
            await _stop(control, result)
    result.seconds = clock.monotonic() - started
    return result


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
    result.components = stretches(log)
    result.pods = pod_lives(log)
    result.record = record(log, [step.revisions[1] for step in result.steps if not step.skipped])


async def _run_steps(
    cell: Cell, control: ClusterControl, clock: Clock, progress: Progress, result: CellResult
) -> None:
    client = control.client()
    try:
        namespace = cell.scenario.name.replace("/", "-")
        bindings = {"namespace": namespace, **cell.parameters}
        for name, value in cell.scenario.bindings.items():
            bindings[name] = bind(value, bindings)
        ctx = CellContext(control, client, Kinds(client), clock, namespace, bindings, cell.scenario.timeouts)
        ctx.observations = result.observations
        await _create_namespace(ctx)
        begun: list[tuple[Step, StepResult]] = []
        for step in cell.scenario.steps:
            if begun and begun[-1][1].stops:
                result.steps.append(StepResult(step.name, skipped=True))
                continue
            progress(step.name)
            begun.append((step, await _run_step(ctx, step)))
            result.steps.append(begun[-1][1])
        for step, outcome in reversed(begun):
            await _run_block(ctx, step.cleanup, "cleanup", outcome)
    finally:
        await client.close()


async def _create_namespace(ctx: CellContext) -> None:
    try:
        await ctx.client.create(NAMESPACES, {"metadata": {"name": ctx.namespace}})
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


async def _run_step(ctx: CellContext, step: Step) -> StepResult:
    """Run the operations until one fails; then collect the events since the step began."""
    result = StepResult(step.name)
    since = await ctx.control.revision()
    for name, value in step.bindings.items():
        ctx.bindings[name] = bind(value, ctx.bindings)
    await _run_block(ctx, step.operations, "try", result)
    if result.failed:
        result.events = [event for event in await ctx.control.events(since) if _tells(event)]
        await _run_block(ctx, step.catch, "catch", result)
    await _run_block(ctx, step.finally_, "finally", result)
    result.revisions = (since, await ctx.control.revision())
    return result


async def _run_block(ctx: CellContext, operations: Sequence[Operation], block: str, into: StepResult) -> None:
    """Run operations until one fails that does not let the others go on."""
    for operation in operations:
        outcome = await _run_operation(ctx, operation, block)
        into.operations.append(outcome)
        if outcome.failed and not operation.continue_on_error:
            into.stops = into.stops or block == "try"
            break


async def _run_operation(ctx: CellContext, operation: Operation, block: str) -> OperationResult:
    started = ctx.clock.monotonic()
    outcome = OperationResult(operation.title, operation.kind, 0.0, block=block, about=operation.about)
    try:
        if operation.user is not None:
            ctx = ctx.as_user(bind(dict(operation.user), ctx.bindings))
        await RUN[operation.kind](ctx, operation)
    except StepError as error:
        outcome.expected, outcome.found = error.expected, error.found
    except StatusError as error:
        outcome.expected, outcome.found = "no error of the API", f"{error.code} {error.message}"
    except CONNECTION_ERRORS as error:
        outcome.expected, outcome.found = "an answer of the API server", str(error)
    outcome.seconds = ctx.clock.monotonic() - started
    return outcome


def _tells(event: Mapping[str, Any]) -> bool:
    """Returns whether an event is evidence; the renewing of leases goes on whatever happens."""
    return not (event.get("verb") == "update" and str(event.get("object")).startswith("leases."))

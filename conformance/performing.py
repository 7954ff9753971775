"""Performs the steps of a cell: operations in order, the blocks that follow, the evidence of failures."""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError, StepError, UnboundError
from kubeskew.conformance.results import OperationResult, StepResult
from kubeskew.conformance.scenario import Operation, Step

Perform = Callable[[CellContext, Operation], Awaitable[None]]


def missing(ctx: CellContext, step: Step, before: Sequence[tuple[Step, StepResult]]) -> str:
    """Returns what keeps a step from being run: a step it needs, or a name that nothing was bound to.

    Empty if nothing does. Of a step that is repeated, the last time before counts.
    """
    if (step.branch or step.compares) and not ctx.branches:
        return "the cluster was not forked"
    own = [pair for pair in before if pair[0].branch in ("", step.branch)]
    for name in step.needs:
        needed = next((result for other, result in reversed(own) if other.is_called(name)), None)
        if needed is not None and (needed.not_run or needed.failed):
            return f"it needs the step {name!r}, which {'was not run' if needed.not_run else 'failed'}"
    for name in step.required_names():
        if name not in ctx.bindings:
            return f"nothing was bound to ${name}"
    return ""


def unbind(ctx: CellContext, operations: Sequence[Operation]) -> None:
    """Forget what these operations would have bound anew: what it was before is not what is meant."""
    for operation in operations:
        for name in operation.outputs:
            ctx.bindings.pop(name, None)


async def perform_step(ctx: CellContext, step: Step, run: Mapping[str, Perform]) -> StepResult:
    """Run the operations until one fails; then collect the events since the step began.

    A component's coming or going bears the revision that was the newest then, which may be the step's first:
    those that were there when it began are not its own.
    """
    result = StepResult(step.name)
    ctx.begin_step(result)
    ctx.step_timeouts = step.timeouts
    since = await ctx.control.revision()
    before = len([event for event in await ctx.control.events(since) if event["revision"] == since])
    result.revisions = (since, since)
    ctx.bindings.update(step.loop)
    for name, value in step.bindings.items():
        ctx.bindings[name] = bind(value, ctx.bindings)
    await perform_block(ctx, step.operations, "try", result, run)
    if result.failed:
        events = [*await ctx.control.events(since)]
        old = before if events and events[0]["revision"] == since else 0
        result.events = [event for event in events[old:] if _is_evidence(event)]
        await perform_block(ctx, step.catch, "catch", result, run)
    await perform_block(ctx, step.finally_, "finally", result, run)
    result.revisions = (since, await ctx.control.revision())
    return result


async def perform_block(
    ctx: CellContext,
    operations: Sequence[Operation],
    block: str,
    into: StepResult,
    run: Mapping[str, Perform],
) -> None:
    """Run operations until one fails that does not let the others go on; those behind it are not run.

    Of a test without a header, only a `try` ends so: what shows or cleans up goes on, as in Chainsaw.
    """
    stopped = ""
    for operation in operations:
        outcome = OperationResult(operation.title, operation.kind, 0.0, block=block, about=operation.about)
        into.operations.append(outcome)
        unbound = [name for name in operation.names() if name not in ctx.bindings]
        if stopped or unbound:
            outcome.not_run = stopped or f"nothing was bound to ${unbound[0]}"
            unbind(ctx, [operation])
            continue
        ctx.outcome = outcome
        await _perform(ctx, operation, outcome, run[operation.kind])
        if outcome.failed:
            unbind(ctx, [operation])
            if not operation.continue_on_error:
                into.stops = True
                stopped = "" if ctx.is_chainsaw and block != "try" else f"{operation.title} failed"


async def _perform(ctx: CellContext, operation: Operation, outcome: OperationResult, run: Perform) -> None:
    """Do it, and note how it failed, if it did."""
    started = ctx.clock.monotonic()
    try:
        if operation.through:
            ctx = ctx.through(bind(operation.through, ctx.bindings))
        if operation.user is not None:
            ctx = ctx.as_user(bind(dict(operation.user), ctx.bindings))
        own = ctx.binding(operation.bindings) if operation.bindings else ctx
        await run(own, operation)
        if own is not ctx:
            ctx.bindings.update(
                {name: own.bindings[name] for name in operation.outputs if name in own.bindings}
            )
    except Exception as error:  # a defect of ours is the step's failure, and no reason to leave things behind
        outcome.expected, outcome.found, outcome.broken = failure_of(error, operation)
    outcome.seconds = ctx.clock.monotonic() - started


def failure_of(error: Exception, operation: Operation) -> tuple[str, str, bool]:
    """Returns what an operation that raised it was expected to do, what was found instead, and whether the
    scenario or kubeskew is broken: then it is no failure that upstream could have."""
    if isinstance(error, StepError):
        return error.expected, error.found, False
    if isinstance(error, StatusError):
        return "no error of the API", f"{error.code} {error.message}", False
    if isinstance(error, CONNECTION_ERRORS):
        return "an answer of the API server", str(error) or type(error).__name__, False
    if isinstance(error, ClusterError | UserError):
        return f"{operation.kind} to be done", str(error), False
    if isinstance(error, UnboundError):
        return "an earlier step to bind the name", str(error), True
    if isinstance(error, ScenarioError):
        return "a scenario that can be run", str(error), True
    return f"{operation.kind} to be done", "".join(traceback.format_exception(error)).strip(), True


def _is_evidence(event: Mapping[str, Any]) -> bool:
    """Returns whether an event is evidence; the renewing of leases goes on whatever happens."""
    return not (event.get("verb") == "update" and str(event.get("object")).startswith("leases."))

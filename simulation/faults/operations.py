"""Performs a scenario's operations while faults last.

The scenario's expectations must hold when faults are over. While they last, a failed operation only shows
their effect: it ends them, and is done once more after the quiet phase. That answer counts, and operations
after it have no faults any more. Only a watch that stands still for minutes is waited for first: its effect
shows when it goes on. An operation that waits goes on looking while the cluster comes to rest, for its object
may come about then, and pass.

A failure that a mark of the step names is what the scenario expects. Metrics and logs of processes, the
firing of the scenario's own faults and the recorded events depend on the way there, which is another one with
faults: it is not judged where some have fired.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.runner import Perform, failure_of
from kubeskew.conformance.scenario import ExpectedFailure, Operation
from kubeskew.simulation.faults.control import FaultyControl

_FAILURES = (StepError, ScenarioError, StatusError, ClusterError, UserError, *CONNECTION_ERRORS)
_WAYS = frozenset({"metric", "logs", "fault"})  # operations on the way, not on the end
_WAITS = frozenset({"assert", "error", "wait"})  # operations that end once objects are as wanted
_POLL_SECONDS = 0.5
_SUCCESS = "success"  # begins what is found of a write that was to be refused


Marks = Mapping[str, Sequence[ExpectedFailure]]


def under_faults(run: Mapping[str, Perform], control: FaultyControl, marks: Marks) -> Mapping[str, Perform]:
    """Operations are performed while faults of `control` last; `marks` are a cell's, by step."""
    return {kind: partial(_perform, control, marks, perform) for kind, perform in run.items()}


async def _perform(
    control: FaultyControl, marks: Marks, perform: Perform, ctx: CellContext, operation: Operation
) -> None:
    if control.healed:
        await _perform_healed(control, perform, ctx, operation)
        return
    try:
        await perform(ctx, operation)
    except _FAILURES as error:
        if _is_expected(error, operation, marks.get(ctx.step.name, ())):
            raise
        if await control.outlast():
            with suppress(*_FAILURES):
                await perform(ctx, operation)
                return
        if await _met_while_healing(control, perform, ctx, operation):
            return
        if isinstance(error, StepError) and error.found.startswith(_SUCCESS):
            raise  # the object is there, and cannot be refused any more
        await _perform_healed(control, perform, ctx, operation)


async def _met_while_healing(
    control: FaultyControl, perform: Perform, ctx: CellContext, operation: Operation
) -> bool:
    """Waits until the cluster is healed; True if the operation, which is tried meanwhile, succeeded."""
    why = f"{operation.title} failed"
    if operation.kind not in _WAITS:
        await control.heal(why)
        return False
    looking = asyncio.create_task(_look(perform, ctx, operation), name=why)
    try:
        await control.heal(why)
        return looking.done()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _look(perform: Perform, ctx: CellContext, operation: Operation) -> None:
    while True:
        with suppress(*_FAILURES):
            await perform(ctx, operation)
            return
        await ctx.clock.sleep(_POLL_SECONDS)


async def _perform_healed(
    control: FaultyControl, perform: Perform, ctx: CellContext, operation: Operation
) -> None:
    try:
        await perform(ctx, operation)
    except _FAILURES as error:
        if not (_is_of_the_way(operation) and control.disturbed):
            raise
        expected, found, _ = failure_of(error, operation)
        control.played.notes.append(f"not judged under faults: expected {expected}; found {found}")


def _is_of_the_way(operation: Operation) -> bool:
    """Operations on metrics, logs, faults and events look at the way, and not at the end."""
    resource = operation.body.get("resource")
    return operation.kind in _WAYS or (isinstance(resource, Mapping) and resource.get("kind") == "Event")


def _is_expected(error: Exception, operation: Operation, marks: Sequence[ExpectedFailure]) -> bool:
    """An expected failure is no reason to heal; done again, the operation may well succeed."""
    _, found, broken = failure_of(error, operation)
    return not broken and any(mark.matched(found) for mark in marks)

"""Performs a scenario's operations while faults last.

What a scenario expects has to hold when faults are over. While they last, an operation that fails says only
that they are felt: it ends them, and is done once more after the quiet phase. That answer counts, and what
comes after it has no faults any more. Only a watch that stands still for minutes is waited for first: what
that does shows when it goes on. An operation that waits goes on looking while the cluster comes to rest, for
what it waits for may come about then, and pass.

A failure that a mark of the step tells of is what the scenario expects. What processes count and log, which
of the scenario's own faults fire and which events are recorded depends on the way there, which is another one
with faults: it is not judged where some have fired.
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
_WAYS = frozenset({"metric", "logs", "fault"})  # operations that tell of the way
_WAITS = frozenset({"assert", "error", "wait"})  # operations that end once objects are as wanted
_POLL_SECONDS = 0.5
_SUCCESS = "success"  # begins what is found of a write that was to be refused


Marks = Mapping[str, Sequence[ExpectedFailure]]


def under_faults(run: Mapping[str, Perform], control: FaultyControl, marks: Marks) -> Mapping[str, Perform]:
    """Returns the operations as they are performed while faults of `control` last; `marks` are a cell's, by
    step."""
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
            raise  # what was made is there, and cannot be refused any more
        await _perform_healed(control, perform, ctx, operation)


async def _met_while_healing(
    control: FaultyControl, perform: Perform, ctx: CellContext, operation: Operation
) -> bool:
    """Ends the faults after the quiet phase; returns whether what the operation waits for was so in it."""
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
    """Performs an operation until it succeeds."""
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
        if not (_tells_of_the_way(operation) and control.disturbed):
            raise
        expected, found, _ = failure_of(error, operation)
        control.played.notes.append(f"not judged under faults: expected {expected}; found {found}")


def _tells_of_the_way(operation: Operation) -> bool:
    """Returns whether an operation looks at how things came about, and not at what they came to."""
    resource = operation.body.get("resource")
    return operation.kind in _WAYS or (isinstance(resource, Mapping) and resource.get("kind") == "Event")


def _is_expected(error: Exception, operation: Operation, marks: Sequence[ExpectedFailure]) -> bool:
    """Returns whether the scenario expects this failure; done again, the operation may well succeed."""
    _, found, broken = failure_of(error, operation)
    return not broken and any(mark.matched(found) for mark in marks)

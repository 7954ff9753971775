"""Performs a scenario's operations while faults last.

What a scenario expects has to hold when faults are over. While they last, an operation that fails says only
that they are felt: it ends them, and is done once more after the quiet phase. That answer counts, and what
comes after it has no faults any more. Only a watch that stands still for minutes is waited for first: what
that does shows when it goes on.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.performing import Perform
from kubeskew.conformance.scenario import Operation
from kubeskew.simulation.faults.control import FaultyControl

_FAILURES = (StepError, ScenarioError, StatusError, ClusterError, UserError, *CONNECTION_ERRORS)
_SUCCESS = "success"  # begins what is found of a write that was to be refused


def under_faults(run: Mapping[str, Perform], control: FaultyControl) -> Mapping[str, Perform]:
    """Returns the operations as they are performed while faults of `control` last."""
    return {kind: partial(_perform, control, perform) for kind, perform in run.items()}


async def _perform(control: FaultyControl, perform: Perform, ctx: CellContext, operation: Operation) -> None:
    if control.healed:
        await perform(ctx, operation)
        return
    try:
        await perform(ctx, operation)
    except _FAILURES as error:
        if await control.outlast():
            with suppress(*_FAILURES):
                await perform(ctx, operation)
                return
        await control.heal(f"{operation.title} failed")
        if isinstance(error, StepError) and error.found.startswith(_SUCCESS):
            raise  # what was made is there, and cannot be refused any more
        await perform(ctx, operation)

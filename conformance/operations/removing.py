"""Removes what a scenario made on a cluster that is not ours, the last first, as Chainsaw does."""

from collections.abc import Sequence

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.context import CellContext, Made
from kubeskew.conformance.operations.waiting import POLL_SECONDS
from kubeskew.conformance.results import OperationResult


async def remove(ctx: CellContext, made: Sequence[Made]) -> Sequence[OperationResult]:
    """Delete each, wait until it is gone, and return the failures: what stays until the timeout `cleanup`."""
    failures = []
    for ref, namespace, name in reversed(made):
        started = ctx.clock.monotonic()
        if found := await _remove(ctx, ref, namespace, name):
            took = ctx.clock.monotonic() - started
            about = f"{ref.kind} {name}"
            failures.append(
                OperationResult("delete", "delete", took, f"{about} to be gone", found, "cleanup", about)
            )
    return failures


async def _remove(ctx: CellContext, ref: Ref, namespace: str, name: str) -> str:
    """Returns why an object is not gone, empty if it is."""
    deadline = ctx.clock.monotonic() + ctx.timeout("cleanup")
    try:
        await ctx.client.delete(ref, name, namespace, propagation="Background")
        while True:
            await ctx.client.get(ref, name, namespace)
            if ctx.clock.monotonic() > deadline:
                return "it is still there"
            await ctx.clock.sleep(POLL_SECONDS)
    except StatusError as error:
        return "" if error.reason == "NotFound" else error.message
    except CONNECTION_ERRORS as error:
        return f"no answer: {error}"

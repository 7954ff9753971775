"""One write to the API server, and what a scenario expects of its answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import StepError
from kubeskew.conformance.matching import mismatches
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.scenario import Operation

_ANSWERED = "(answered by kube-apiserver)"


async def write(
    ctx: CellContext, operation: Operation, obj: Object, send: Callable[[], Awaitable[Object]], what: str
) -> bool:
    """Send it; without `expect` it has to succeed. Returns whether it did.

    `expect: [{match: {kind: Pod}, check: {($error != null): true}}]` holds the answer against the checks
    whose `match` fits the object: in them `$error` is the message of a refusal, or null. Raises StepError.
    """
    error: str | None = None
    answer: Object = {}
    refusal = ""
    given = bind(operation.body.get("timeout"), ctx.bindings) if operation.kind != "delete" else None
    limit = seconds(given, operation.where) if given else None
    try:
        async with asyncio.timeout(limit):
            answer = await send()
    except TimeoutError:
        if limit is None:
            raise
        raise StepError(f"{what} to end within {limit:g} s", "no answer") from None
    except StatusError as failure:
        error = failure.message
        refusal = f"{failure.code} {failure.reason}: {error} {_ANSWERED}"
    checks = [
        entry.get("check") or {}
        for entry in operation.body.get("expect") or []
        if not list(mismatches(entry.get("match") or {}, obj, ctx.bindings))
    ]
    if not checks and error is not None:
        raise StepError(f"{what} to succeed", refusal)
    for check in checks:
        _hold(check, answer, {**ctx.bindings, "error": error}, refusal, what)
    if error is None:
        bind_outputs(ctx, operation, answer)
    return error is None


def _hold(check: Any, answer: Object, bindings: Object, refusal: str, what: str) -> None:
    differing = "; ".join(mismatches(check, answer, bindings))
    if not differing:
        return
    if not refusal and "$error" in str(check):
        raise StepError(f"{what} to be refused", f"success {_ANSWERED}")
    raise StepError(f"{what} to be answered as expected", refusal or differing)

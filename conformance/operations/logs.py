"""`podLogs`: what containers wrote."""

import re

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.operations.waiting import POLL_SECONDS
from kubeskew.conformance.scenario import Operation


async def pod_logs(ctx: CellContext, operation: Operation) -> None:
    """Wait until a pod's log has a line that matches, or has none: `podLogs: {name: a, matches: ^GPU=}`.

    `container` where there are several; `lacks` instead of `matches` for what must not be there (now);
    `outputs` bind the whole text, as `(@)`.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    if not body.get("name"):
        raise ScenarioError(f"{operation.where}.podLogs: expected `name`")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        text, failure = await _read(ctx, body)
        if not failure and "lacks" in body and (found := _line(body["lacks"], text)):
            raise StepError(f"no line of {body['name']}'s log to match {body['lacks']}", found)
        if not failure and ("matches" not in body or _line(body["matches"], text)):
            bind_outputs(ctx, operation, text)
            return
        if ctx.clock.monotonic() > deadline:
            raise StepError(
                f"{body['name']}'s log with {body.get('matches', 'anything')}",
                failure or text or "an empty log",
            )
        await ctx.clock.sleep(POLL_SECONDS)


async def _read(ctx: CellContext, body: dict[str, str]) -> tuple[str, str]:
    """The log, or why it cannot be had."""
    path = f"/api/v1/namespaces/{body.get('namespace', ctx.namespace)}/pods/{body['name']}/log"
    try:
        text = await ctx.client.request(
            "GET", path, query={"container": body.get("container", "")}, accept="*/*"
        )
    except StatusError as error:
        return "", error.message
    except CONNECTION_ERRORS as error:
        return "", f"no answer: {error}"
    return f"{text or ''}", ""


def _line(pattern: str, text: str) -> str:
    found = re.search(f".*(?:{pattern}).*", text, re.MULTILINE)
    return found[0] if found else ""

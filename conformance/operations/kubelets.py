"""`kubelet`: what an operator does with a node's kubelet, and what its files say."""

import re
from collections.abc import Mapping
from typing import Any

from kubeskew.cluster.failures import UserError
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.operations.waiting import POLL_SECONDS
from kubeskew.conformance.scenario import Operation


async def kubelet(ctx: CellContext, operation: Operation) -> None:
    """Remove files of a kubelet, or set its policies: `kubelet: {node: a, removeFiles: [cpu_manager_state]}`.

    `set: {cpuManagerPolicy: none}` holds from the kubelet's next start. With `file`, wait until that file
    `matches` a pattern, or with `absent: true` is not there; `outputs` bind its text, as `(@)`. Files are
    named by their path below the kubelet's root directory.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    node = str(body["node"])
    if not {"removeFiles", "set", "file"} & body.keys():
        raise ScenarioError(f"{operation.where}.kubelet: expected `removeFiles`, `set` or `file`")
    try:
        if body.get("removeFiles"):
            await ctx.control.remove_kubelet_files(node, [str(name) for name in body["removeFiles"]])
        if body.get("set"):
            await ctx.control.configure_kubelet(node, body["set"])
    except UserError as error:
        raise StepError("a kubelet with these files and settings", str(error)) from error
    if "file" in body:
        bind_outputs(ctx, operation, await _awaited(ctx, node, body, operation.where))


async def _awaited(ctx: CellContext, node: str, body: Mapping[str, Any], where: str) -> str:
    """Returns the file's text once it is as wanted."""
    pattern = _pattern(body.get("matches", ""), where)
    limit = seconds(body["timeout"], where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        text = await ctx.control.kubelet_file(node, str(body["file"]))
        if text is None if body.get("absent") else text is not None and pattern.search(text):
            return text or ""
        if ctx.clock.monotonic() > deadline:
            wanted = "to be absent" if body.get("absent") else f"to match {pattern.pattern or 'anything'}"
            raise StepError(f"{body['file']} of {node} {wanted}", "no file" if text is None else text)
        await ctx.clock.sleep(POLL_SECONDS)


def _pattern(text: Any, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, TypeError) as error:
        raise ScenarioError(f"{where}.kubelet.matches: no regular expression: {error}") from error

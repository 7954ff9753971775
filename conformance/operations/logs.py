"""`podLogs` and `logs` check the logs of containers and of components."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cluster.log_lines import as_text, time_of
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw import seconds
from kubeskew.conformance.context import CellContext, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.authors import background, running
from kubeskew.conformance.operations import kubectl_output
from kubeskew.conformance.operations.waits import POLL_SECONDS
from kubeskew.conformance.scenario import Operation

_SINCE = ("step", "start")
_LOG_POLL_SECONDS = 0.01  # a look at the file's end costs some ten microseconds
_SHOWN_LINES = 3
_SHOWN_POD_LINES = 40  # more than a container's environment has


async def pod_logs(ctx: CellContext, operation: Operation) -> None:
    """Wait until a pod's log has a line that matches, or has none: `podLogs: {name: a, matches: ^GPU=}`.

    `container` is needed where there are several; `lacks`, instead of `matches`, is a pattern that no line
    may match (now); with `since: step` only lines from the step's beginning on count; `outputs` bind the
    whole text, as `(@)`. Without a pattern, the report shows the log, its last `tail` lines; without a
    `name`, those of the pods that the `selector` selects.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    if not body.get("name"):
        if body.keys() & {"matches", "lacks", "since"} or operation.outputs:
            raise ScenarioError(f"{operation.where}.podLogs: expected `name`")
        await kubectl_output.pod_logs(ctx, body)
        return
    _check_since(body, f"{operation.where}.podLogs")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        text, failure = await _read(ctx, body)
        if not failure and "lacks" in body and (found := _line(body["lacks"], text)):
            raise StepError(
                f"no line of {body['name']}'s log to match {body['lacks']}",
                await _with_authors(ctx, body, found),
            )
        if not failure and ("matches" not in body or _line(body["matches"], text)):
            if "matches" not in body and "lacks" not in body:
                ctx.show("\n".join(text.splitlines()[-int(body.get("tail") or 0) :]))
            bind_outputs(ctx, operation, text)
            return
        if ctx.clock.monotonic() > deadline:
            found = await _with_authors(
                ctx, body, failure or _end_of(text) or "an empty log", is_silent=not text
            )
            raise StepError(f"{body['name']}'s log with {body.get('matches', 'anything')}", found)
        await ctx.clock.sleep(POLL_SECONDS)


def _end_of(text: str) -> str:
    """Keeps the last 40 lines, behind the number of those before: a failure goes into reports, and a
    container that prints the same again and again writes megabytes in a minute."""
    lines = text.splitlines()
    if len(lines) <= _SHOWN_POD_LINES:
        return text
    return "\n".join([f"… {len(lines) - _SHOWN_POD_LINES} lines", *lines[-_SHOWN_POD_LINES:]])


async def _with_authors(
    ctx: CellContext, body: Mapping[str, Any], found: str, *, is_silent: bool = False
) -> str:
    """Adds, on a line of its own, who placed the pod and who runs it; of a pod without output, also its
    warnings."""
    log, records = await ctx.control.log(), await ctx.control.node_records()
    namespace = body.get("namespace", ctx.namespace)
    who = running(log, records, namespace, body["name"])
    if is_silent:
        found += background(log, "Pod", namespace, body["name"], ctx.step.revisions[0], ())
    return "\n".join(filter(None, [found.rstrip("\n"), who]))


async def _read(ctx: CellContext, body: dict[str, str]) -> tuple[str, str]:
    """Without the text, the second one is the reason."""
    path = f"/api/v1/namespaces/{body.get('namespace', ctx.namespace)}/pods/{body['name']}/log"
    since = f"{ctx.step_began}Z" if body.get("since") == "step" else ""
    query = {"container": body.get("container", ""), "sinceTime": since}
    try:
        text = await ctx.client.request("GET", path, query=query, accept="*/*")
    except StatusError as error:
        return "", error.message
    except CONNECTION_ERRORS as error:
        return "", f"no answer: {error}"
    return f"{text or ''}", ""


async def logs(ctx: CellContext, operation: Operation) -> None:
    """Wait until a component's log has lines: `logs: {component: scheduler, match: "unable to schedule"}`.

    With `count`, exactly that many lines match; `absent` is a pattern that no line may match (now, or until
    the awaited lines are there). A pattern that an expression makes null counts as left out. Lines from
    before the step do not count, unless with `since: start`. Nodes that share a kubelet process share its
    log; a driver with a controller has two. `outputs` bind the lines that match as `(@)`. Lines that a real
    program writes as JSON are matched in the form of its text: `"MESSAGE" KEY="VALUE"`.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    match, absent = (_pattern(body, name, operation) for name in ("match", "absent"))
    if match is None and absent is None:
        raise ScenarioError(f"{operation.where}.logs: expected `match` or `absent`")
    _check_since(body, f"{operation.where}.logs")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    since = ctx.step_began if body.get("since", "step") == "step" else ""
    lines: list[str] = []
    matching: list[str] = []
    logged: dict[str, Sequence[str]] = {}  # by process
    offsets: dict[str, int] = {}
    while True:
        if await _read_on(ctx, body["component"], offsets, logged, since):
            lines = [line for log in logged.values() for line in log]
            matching = [line for line in lines if match is not None and match.search(line)]
            if absent is not None and (line := next(filter(absent.search, lines), None)):
                raise StepError(f"no line of {body['component']}'s log to match {absent.pattern}", line)
        if match is None or (len(matching) == body["count"] if "count" in body else bool(matching)):
            bind_outputs(ctx, operation, matching)
            return
        if len(matching) > body.get("count", math.inf) or ctx.clock.monotonic() > deadline:
            raise _unmatched(body, match.pattern, matching, lines)
        await ctx.clock.sleep(_LOG_POLL_SECONDS)


async def _read_on(
    ctx: CellContext,
    component: str,
    offsets: dict[str, int],
    logged: dict[str, Sequence[str]],
    since: str,
) -> bool:
    """Adds new lines of a component's processes; False if there are none."""
    grown = False
    for process, (text, offset) in (await ctx.control.component_logs(component, offsets)).items():
        offsets[process] = offset
        if text:
            former, now = logged.get(process, ()), ctx.clock.now()
            added = text.splitlines() if former else _lines_since(text.splitlines(), since, now)
            logged[process] = [*former, *map(as_text, added)]
            grown = True
    return grown


def _unmatched(body: Mapping[str, Any], pattern: str, matching: list[str], lines: list[str]) -> StepError:
    number = f"{body['count']} lines" if "count" in body else "a line"
    last = " | ".join(matching or lines[-_SHOWN_LINES:])
    found = f"{len(matching)}: {last}" if matching else f"none; the last are {last}" if last else "no line"
    return StepError(f"{number} of {body['component']}'s log to match {pattern}", found)


def _pattern(body: Mapping[str, Any], name: str, operation: Operation) -> re.Pattern[str] | None:
    if body.get(name) is None:
        return None
    try:
        return re.compile(body[name])
    except (re.error, TypeError) as error:
        raise ScenarioError(f"{operation.where}.logs.{name}: no regular expression: {error}") from error


def _lines_since(lines: Sequence[str], time: str, now: datetime) -> Sequence[str]:
    """Lines without a time go with the line before them."""
    if not time:
        return lines
    for position, line in enumerate(lines):
        if time_of(line, now)[: len(time)] >= time:
            return lines[position:]
    return []


def _line(pattern: str, text: str) -> str:
    found = re.search(f".*(?:{pattern}).*", text, re.MULTILINE)
    return found[0] if found else ""


def _check_since(body: Mapping[str, Any], where: str) -> None:
    if body.get("since", "step") not in _SINCE:
        raise ScenarioError(f"{where}.since: expected {' or '.join(_SINCE)}")

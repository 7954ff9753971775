"""`assert`, `error`, `wait`: operations that look at objects."""

from typing import Any

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.matching import mismatches
from kubeskew.conformance.operations.objects import POLL_SECONDS, describe, find
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.scenario import Operation


async def assert_(ctx: CellContext, operation: Operation) -> None:
    """Some object matches the expectation, within the timeout; with `count` just so many do."""
    await _until(ctx, operation, "assert", wanted=True)


async def error(ctx: CellContext, operation: Operation) -> None:
    """No object matches the expectation (any more), within the timeout."""
    await _until(ctx, operation, "error", wanted=False)


async def _until(ctx: CellContext, operation: Operation, kind: str, *, wanted: bool) -> None:
    expected = operation.body.get("resource")
    if not isinstance(expected, dict):
        raise ScenarioError(f"{operation.where}: expected `resource`")
    count = bind(operation.body.get("count"), ctx.bindings)
    deadline = ctx.clock.monotonic() + _seconds(ctx, operation, kind)
    while True:
        try:
            matching, closest = await _matching(ctx, expected)
        except CONNECTION_ERRORS as failure:  # it may be starting again; what it would say is not known
            matching, closest = None, [f"no answer: {failure}"]
        if matching is not None and (bool(matching) == wanted if count is None else len(matching) == count):
            if matching:
                bind_outputs(ctx, operation, matching[0])
            return
        if ctx.clock.monotonic() > deadline:
            break
        await ctx.clock.sleep(POLL_SECONDS)
    kind_name = expected.get("kind")
    if count is not None and matching is not None:
        raise StepError(
            f"{count} {kind_name} as asserted", f"{len(matching)}: {', '.join(map(describe, matching))}"
        )
    if wanted:
        raise StepError(f"a {kind_name} as asserted", "; ".join(closest) or f"no {kind_name} at all")
    names = ", ".join(map(describe, matching)) if matching else "; ".join(closest)
    raise StepError(f"no {kind_name} of this kind", names)


async def _matching(ctx: CellContext, expected: Object) -> tuple[list[Object], list[str]]:
    """The objects that match, and what the closest of the others lacks."""
    identity = bind(
        {
            "apiVersion": expected["apiVersion"],
            "kind": expected["kind"],
            "name": (expected.get("metadata") or {}).get("name", ""),
            "namespace": (expected.get("metadata") or {}).get("namespace", ""),
            "labels": (expected.get("metadata") or {}).get("labels", {}),
        },
        ctx.bindings,
    )
    ref = await ctx.kinds.ref(identity["apiVersion"], identity["kind"])
    namespace = (identity["namespace"] or ctx.namespace) if ref.namespaced else ""
    candidates = await find(ctx, ref, identity["name"], namespace, identity["labels"])
    lacking = [(list(mismatches(expected, obj, ctx.bindings)), obj) for obj in candidates]
    matching = [obj for missing, obj in lacking if not missing]
    if matching or not lacking:
        return matching, []
    missing, obj = min(lacking, key=lambda pair: len(pair[0]))
    return [], [f"{describe(obj)}: {text}" for text in missing]


async def wait(ctx: CellContext, operation: Operation) -> None:
    """Until a condition holds, a JSON path has a value, or the objects are deleted."""
    body = bind(dict(operation.body), ctx.bindings)
    condition = body.get("for") or {}
    ref = await ctx.kinds.ref(body["apiVersion"], body["kind"])
    namespace = body.get("namespace", ctx.namespace) if ref.namespaced else ""
    labels = dict(pair.split("=", 1) for pair in body.get("selector", "").split(",") if pair)
    deadline = ctx.clock.monotonic() + _seconds(ctx, operation, "assert")
    while True:
        try:
            found = await find(ctx, ref, body.get("name", ""), namespace, labels)
            lacking = _waiting_for(condition, found, body["kind"], operation)
        except CONNECTION_ERRORS as failure:
            lacking = f"no answer: {failure}"
        if not lacking:
            return
        if ctx.clock.monotonic() > deadline:
            raise StepError(_wanted(condition, body), lacking)
        await ctx.clock.sleep(POLL_SECONDS)


def _wanted(condition: Any, body: Object) -> str:
    what = f"{body['kind']} {body.get('name') or body.get('selector', '')}".strip()
    if "deletion" in condition:
        return f"{what} to be gone"
    return f"{what} to be {condition['condition']['name']}={condition['condition'].get('value', 'true')}"


def _waiting_for(condition: Any, found: list[Object], kind: str, operation: Operation) -> str:
    """Returns what keeps the wait from ending; empty if nothing."""
    if "deletion" in condition:
        return ", ".join(describe(obj) for obj in found)
    if "condition" not in condition:
        raise ScenarioError(f"{operation.where}.for: expected `condition` or `deletion`")
    if not found:
        return f"no {kind}"
    name, value = condition["condition"]["name"], str(condition["condition"].get("value", "true"))
    for obj in found:
        conditions = (obj.get("status") or {}).get("conditions") or []
        found_one = next((each for each in conditions if each["type"] == name), {"status": "absent"})
        if found_one["status"].lower() != value.lower():
            why = ": ".join(filter(None, (found_one.get("reason"), found_one.get("message"))))
            return f"{describe(obj)}: {name} is {found_one['status']}" + (f" ({why})" if why else "")
    return ""


def _seconds(ctx: CellContext, operation: Operation, kind: str) -> float:
    text = operation.body.get("timeout")
    return seconds(text, operation.where) if text else ctx.timeout(kind)

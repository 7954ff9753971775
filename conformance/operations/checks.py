"""`assert`, `error`, `wait`, `undisturbed`: operations that look."""

from collections.abc import Iterator
from typing import Any

from apimachinery.client.refs import PODS
from apimachinery.client.rest import CONNECTION_ERRORS
from conformance.bindings import bind
from conformance.context import CellContext, Object
from conformance.durations import seconds
from conformance.errors import ScenarioError, StepError
from conformance.matching import mismatches
from conformance.operations.objects import POLL_SECONDS, bind_outputs, describe, find
from conformance.scenario import Operation


async def assert_(ctx: CellContext, operation: Operation) -> None:
    """Some object matches the expectation, within the timeout."""
    await _until(ctx, operation, "assert", wanted=True)


async def error(ctx: CellContext, operation: Operation) -> None:
    """No object matches the expectation (any more), within the timeout."""
    await _until(ctx, operation, "error", wanted=False)


async def _until(ctx: CellContext, operation: Operation, kind: str, *, wanted: bool) -> None:
    expected = operation.body.get("resource")
    if not isinstance(expected, dict):
        raise ScenarioError(f"{operation.where}: expected `resource`")
    deadline = ctx.clock.monotonic() + _seconds(ctx, operation, kind)
    while True:
        try:
            matching, closest = await _matching(ctx, expected)
        except CONNECTION_ERRORS as failure:  # it may be starting again; what it would say is not known
            matching, closest = None, [f"no answer: {failure}"]
        if matching is not None and bool(matching) == wanted:
            if matching:
                bind_outputs(ctx, operation, matching[0])
            return
        if ctx.clock.monotonic() > deadline:
            break
        await ctx.clock.sleep(POLL_SECONDS)
    kind_name = expected.get("kind")
    if wanted:
        raise StepError(f"a {kind_name} as asserted", "; ".join(closest) or f"no {kind_name} at all")
    names = ", ".join(map(describe, matching)) if matching else "; ".join(closest)
    raise StepError(f"no {kind_name} of this kind", names)


async def _matching(ctx: CellContext, expected: Object) -> tuple[list[Object], list[str]]:
    """The objects that match, and what the closest of the others lacks."""
    identity = bind(
        {
            "name": (expected.get("metadata") or {}).get("name", ""),
            "namespace": (expected.get("metadata") or {}).get("namespace", ""),
            "labels": (expected.get("metadata") or {}).get("labels", {}),
        },
        ctx.bindings,
    )
    ref = await ctx.kinds.ref(expected["apiVersion"], expected["kind"])
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
    """What keeps the wait from ending; empty if nothing."""
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


async def undisturbed(ctx: CellContext, operation: Operation) -> None:
    """The pods with the labels run as they ran before the first change: same containers, same devices."""
    body = bind(dict(operation.body), ctx.bindings)
    namespace = body.get("namespace", ctx.namespace)
    name, labels = body.get("name", ""), body.get("labels") or {}
    pods = await find(ctx, PODS, name, namespace, labels)
    for pod in _gone(ctx, pods, name, namespace, labels):
        raise StepError(f"{describe(pod)} undisturbed", "it is gone")
    known = [pod for pod in pods if pod["metadata"]["uid"] in ctx.baseline]
    if not known:
        raise StepError("pods that ran before the change", f"none of {len(pods)} pods did")
    expected = body.get("count")
    if expected is not None and len(known) != expected:
        raise StepError(f"{expected} pods from before the change", str(len(known)))
    prepared = await ctx.control.prepared()
    for pod in known:
        disturbances = _disturbances(ctx.baseline[pod["metadata"]["uid"]], pod)
        disturbances += _unprepared(ctx, pod, prepared)
        if disturbances:
            raise StepError(f"{describe(pod)} undisturbed", "; ".join(disturbances))


def _gone(
    ctx: CellContext, pods: list[Object], name: str, namespace: str, labels: dict[str, str]
) -> Iterator[Object]:
    """The pods meant that were there at the last change and are not among `pods` any more."""
    there = {pod["metadata"]["uid"] for pod in pods}
    for uid in sorted(ctx.present - there):
        metadata = ctx.baseline[uid]["metadata"]
        named = name in {"", metadata["name"]} and metadata["namespace"] == namespace
        if named and labels.items() <= (metadata.get("labels") or {}).items():
            yield ctx.baseline[uid]


def _disturbances(before: Object, now: Object) -> list[str]:
    """How a pod's containers differ from what they were."""
    if now["metadata"].get("deletionTimestamp"):
        return ["it is being deleted"]
    found = []
    statuses = {each["name"]: each for each in (now.get("status") or {}).get("containerStatuses") or []}
    for old in (before.get("status") or {}).get("containerStatuses") or []:
        new = statuses.get(old["name"], {})
        found += [
            f"{old['name']}.{what}: was {old.get(what)}, is {new.get(what)}"
            for what in ("containerID", "restartCount", "state", "ready")
            if new.get(what) != old.get(what)
        ]
    phases = [(pod.get("status") or {}).get("phase") for pod in (before, now)]
    return found + ([f"phase was {phases[0]}, is {phases[1]}"] if phases[0] != phases[1] else [])


def _unprepared(ctx: CellContext, pod: Object, prepared: Any) -> list[str]:
    """Claims of the pod that its node held prepared before and does not hold now."""
    node = pod["spec"].get("nodeName", "")
    claims = {f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod)}
    lost = (set(ctx.prepared.get(node, [])) & claims) - set(prepared.get(node, []))
    return [f"node {node} no longer holds the devices of claim {claim} prepared" for claim in sorted(lost)]


def claim_names(pod: Object) -> set[str]:
    """The claims a pod uses: named in its spec, made from templates, made for its extended resources."""
    status = pod.get("status") or {}
    names = {entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or []}
    names |= {entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or []}
    names.add((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return {name for name in names if name}


def _seconds(ctx: CellContext, operation: Operation, kind: str) -> float:
    text = operation.body.get("timeout")
    return seconds(text, operation.where) if text else ctx.timeout(kind)

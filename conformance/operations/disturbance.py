"""`undisturbed` and `prepared`: whether pods kept their containers, and nodes their devices."""

import json
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.operations.objects import describe
from kubeskew.conformance.operations.waiting import POLL_SECONDS, Selection, find
from kubeskew.conformance.scenario import Operation


async def prepared(ctx: CellContext, operation: Operation) -> None:
    """Wait until a node's kubelet holds so many claims prepared: `prepared: {node: n, count: 0}`."""
    body = bind(dict(operation.body), ctx.bindings)
    if not isinstance(body.get("count"), int) or "node" not in body:
        raise ScenarioError(f"{operation.where}.prepared: expected `node` and `count`")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while len(claims := list((await ctx.control.prepared()).get(body["node"], []))) != body["count"]:
        if ctx.clock.monotonic() > deadline:
            raise StepError(f"{body['count']} claims prepared on {body['node']}", ", ".join(claims) or "none")
        await ctx.clock.sleep(POLL_SECONDS)


async def undisturbed(ctx: CellContext, operation: Operation) -> None:
    """The pods with the labels run as they ran before the first change: same containers, same devices."""
    body = bind(dict(operation.body), ctx.bindings)
    namespace = body.get("namespace", ctx.namespace)
    name, labels = body.get("name", ""), body.get("labels") or {}
    pods = await find(ctx, PODS, Selection("v1", "Pod", namespace, name, labels))
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
    """Lists how a pod's containers differ from what they were."""
    if now["metadata"].get("deletionTimestamp"):
        return ["it is being deleted"]
    found = []
    statuses = {each["name"]: each for each in (now.get("status") or {}).get("containerStatuses") or []}
    for old in (before.get("status") or {}).get("containerStatuses") or []:
        new = statuses.get(old["name"], {})
        found += [
            f"{old['name']}.{what}: was {json.dumps(old.get(what))}, is {json.dumps(new.get(what))}"
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

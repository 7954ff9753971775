"""`prepared`: whether claims are prepared on nodes, by which driver and with which devices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.aspects import claim_names
from kubeskew.conformance.evidence.component_runs import with_version
from kubeskew.conformance.evidence.log import KUBELET, Logged
from kubeskew.conformance.evidence.nodes import PreparedClaim
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.operations.waiting import POLL_SECONDS, Selection, find
from kubeskew.conformance.scenario import Operation

_GROUP = "resource.k8s.io"
_CHOOSING = ("node", "driver", "claim", "labels", "pod")


async def prepared(ctx: CellContext, operation: Operation) -> None:
    """Wait until claims are prepared, or are not: `prepared: {node: n, claim: c, devices: [gpu-0]}`.

    The claims are chosen by `claim` (a name or several), `labels` or the `pod` that uses them, else all are
    meant; `node` and `driver` narrow it down. Each chosen claim is to be prepared, with just these `devices`
    and `cdiDeviceIDs` where they are given; with `count` just so many are, with `absent: true` none.
    `outputs` bind the list of what is prepared, each `{node, driver, namespace, name, uid, devices}`.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    if not body.keys() & set(_CHOOSING):
        raise ScenarioError(f"{operation.where}.prepared: expected one of {', '.join(_CHOOSING)}")
    count = body.get("count")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
        raise ScenarioError(f"{operation.where}.prepared.count: expected a number, found {count!r}")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        try:
            names, unknown = await _chosen(ctx, body)
            held = [*_held(await ctx.control.prepared(), body, names, ctx.namespace)]
            lacking = unknown or _lacking(held, body, names)
        except CONNECTION_ERRORS as failure:
            lacking = f"no answer: {failure}"
        if not lacking:
            bind_outputs(ctx, operation, [_as_json(claim) for claim in held])
            return
        if ctx.clock.monotonic() > deadline:
            raise StepError(_wanted(body, await ctx.control.log()), lacking)
        await ctx.clock.sleep(POLL_SECONDS)


async def _chosen(ctx: CellContext, body: Mapping[str, Any]) -> tuple[set[str] | None, str]:
    """The names of the claims that are chosen, None for all; and why they are not known yet."""
    namespace = body.get("namespace", ctx.namespace)
    if "claim" in body:
        claims = body["claim"]
        return {claims} if isinstance(claims, str) else set(claims), ""
    if "pod" in body:
        pods = await find(ctx, PODS, Selection("v1", "Pod", namespace, body["pod"]))
        names = claim_names(pods[0]) if pods else set()
        return names, "" if names else f"no {'claim of ' if pods else ''}pod {body['pod']}"
    if "labels" in body:
        group = await ctx.client.request("GET", f"/apis/{_GROUP}")
        version = group["preferredVersion"]["groupVersion"]
        ref = await ctx.kinds.ref(version, "ResourceClaim")
        claims = await find(ctx, ref, Selection(version, "ResourceClaim", namespace, "", body["labels"]))
        labels = ",".join(f"{key}={value}" for key, value in body["labels"].items())
        return {claim["metadata"]["name"] for claim in claims}, "" if claims else f"no claim with {labels}"
    return None, ""


def _held(
    prepared: Mapping[str, Sequence[PreparedClaim]],
    body: Mapping[str, Any],
    names: set[str] | None,
    namespace: str,
) -> Iterator[PreparedClaim]:
    """Yields the chosen claims that are prepared."""
    for node in sorted(prepared):
        for claim in prepared[node]:
            placed = body.get("node", node) == node and body.get("driver", claim.driver) == claim.driver
            named = names is None or (
                claim.name in names and claim.namespace == body.get("namespace", namespace)
            )
            if placed and named:
                yield claim


def _lacking(held: Sequence[PreparedClaim], body: Mapping[str, Any], names: set[str] | None) -> str:
    """Returns what differs from what is wanted; empty if nothing does."""
    shown = ", ".join(map(str, held)) or "none"
    if body.get("absent"):
        return shown if held else ""
    if "count" in body:
        if len({claim.uid for claim in held}) != body["count"]:
            return shown
    elif not held:
        return shown
    elif missing := sorted((names or set()) - {claim.name for claim in held}):
        return f"{shown}; not {', '.join(missing)}"
    for kind, of in (("devices", "device_names"), ("cdiDeviceIDs", "cdi_ids")):
        together = sorted({name for claim in held for name in getattr(claim, of)})
        if kind in body and sorted(body[kind]) != together:
            return f"{kind} {', '.join(together) or 'none'}"
    return ""


def _wanted(body: Mapping[str, Any], log: Sequence[Logged]) -> str:
    chosen = [f"{key} {_text(body[key])}" for key in _CHOOSING if key in body and key != "node"]
    if "count" in body:
        text = f"{body['count']} claims prepared"
    else:
        text = "no claim prepared" if body.get("absent") else "claims prepared"
    if "node" in body:
        text += f" by {with_version(log, KUBELET + body['node'])}"
    details = [f"{key} {_text(body[key])}" for key in ("devices", "cdiDeviceIDs") if key in body]
    return text + (f" ({', '.join(chosen)})" if chosen else "") + "".join(f" with {each}" for each in details)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return value if isinstance(value, str) else ", ".join(map(str, value))


def _as_json(claim: PreparedClaim) -> dict[str, Any]:
    names = ("node", "driver", "namespace", "name", "uid", "devices")
    return {name: getattr(claim, name) for name in names}

"""`observe` and `metric`: operations that note values, or check those of a component's metrics."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.conformance.bindings import bind, evaluate, expression
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.operations.waiting import POLL_SECONDS, Selection, find
from kubeskew.conformance.scenario import Operation


async def observe(ctx: CellContext, operation: Operation) -> None:
    """Note something for the report, whatever it is.

    `observe: {name: what the user sees, apiVersion: v1, kind: Pod, selector: {app: a}, value: (…)}`: the
    expression is of the list of objects found, as they are at the moment. `node: n` instead of a kind finds
    the claims (`namespace/name`) whose devices that node's kubelet holds prepared.
    """
    body = dict(operation.body)
    text = expression(body.pop("value", None))
    if text is None or not body.get("name"):
        raise ScenarioError(f"{operation.where}.observe: expected `name`, and `value` with an expression")
    target = bind(body, ctx.bindings)
    found: list[Any] = []
    if "node" in target:
        claims = (await ctx.control.prepared()).get(target["node"], [])
        found = list(dict.fromkeys(f"{claim.namespace}/{claim.name}" for claim in claims))
    elif "kind" in target:
        ref = await ctx.kinds.ref(target["apiVersion"], target["kind"])
        found = await find(ctx, ref, _selection(ctx, target))
    ctx.observations[target["name"]] = evaluate(text, ctx.bindings, found)


def _selection(ctx: CellContext, target: dict[str, Any]) -> Selection:
    name, labels = target.get("object", ""), target.get("selector") or {}
    namespace = target.get("namespace", ctx.namespace)
    return Selection(target["apiVersion"], target["kind"], namespace, name, labels)


async def metric(ctx: CellContext, operation: Operation) -> None:
    """Wait until a metric of a component has a value.

    `metric: {component: scheduler, name: scheduler_pending_pods, labels: {queue: active}, value: 0}`; instead
    of `value`, `atLeast` and `atMost` bound it. Series with the labels are added up; none is 0 as long as the
    component knows the metric at all. `path` is `/metrics` unless given; `outputs` bind the value, as `(@)`.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    if not body.get("component") or not body.get("name"):
        raise ScenarioError(f"{operation.where}.metric: expected `component` and `name`")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        value, lacking = await _read(ctx, body)
        lacking = lacking or _out_of_bounds(value, body)
        if not lacking:
            bind_outputs(ctx, operation, value)
            return
        if ctx.clock.monotonic() > deadline:
            raise StepError(_wanted(body), lacking)
        await ctx.clock.sleep(POLL_SECONDS)


async def _read(ctx: CellContext, body: dict[str, Any]) -> tuple[float, str]:
    """The value, or what keeps us from having one."""
    try:
        text = await ctx.control.metrics(body["component"], body.get("path", "/metrics"))
    except CONNECTION_ERRORS as error:
        return 0.0, f"no answer: {error}"
    return measured(text, body["name"], body.get("labels") or {})


def measured(text: str, name: str, labels: dict[str, str]) -> tuple[float, str]:
    """The sum of a metric's samples that have the labels, or why there is none."""
    known, total = False, 0.0
    for family in text_string_to_metric_families(text):
        # a family without samples is known by its name, with or without the suffix of counters
        known = known or name in {family.name, f"{family.name}_total"}
        for sample in family.samples:
            if sample.name == name:
                known = True
                if labels.items() <= sample.labels.items():
                    total += sample.value
    return (total, "") if known else (0.0, f"no metric {name}")


def _out_of_bounds(value: float, body: dict[str, Any]) -> str:
    if "value" in body and value != body["value"]:
        return f"{value:g}"
    if value < body.get("atLeast", value) or value > body.get("atMost", value):
        return f"{value:g}"
    return ""


def _wanted(body: dict[str, Any]) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in (body.get("labels") or {}).items())
    bounds = [f"{key} {body[key]:g}" for key in ("value", "atLeast", "atMost") if key in body]
    return f"{body['name']}{{{labels}}} of {body['component']} to have {' and '.join(bounds) or 'a value'}"

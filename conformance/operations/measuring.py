"""`observe`: notes values for the report."""

from typing import Any

from kubeskew.conformance.bindings import bind, evaluate
from kubeskew.conformance.chainsaw.expressions import expression
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.operations.waiting import Selection, find
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

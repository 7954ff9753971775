"""Binds results of an operation to names for later operations."""

from typing import Any

from kubeskew.conformance.bindings import evaluate, expression
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.scenario import Operation


def bind_outputs(ctx: CellContext, operation: Operation, found: Any) -> None:
    """Bind `outputs: [{name, value: (expression of what was found)}]` for later steps."""
    for output in operation.body.get("outputs") or []:
        text = expression(output["value"])
        ctx.bindings[output["name"]] = evaluate(text, ctx.bindings, found) if text else output["value"]

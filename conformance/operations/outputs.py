"""Binds results of an operation to names for later operations."""

from collections.abc import Mapping
from typing import Any

from kubeskew.conformance.bindings import evaluate
from kubeskew.conformance.chainsaw.expressions import expression
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.matching import mismatches
from kubeskew.conformance.scenario import Operation


def bind_outputs(
    ctx: CellContext, operation: Operation, found: Any, results: Mapping[str, Any] | None = None
) -> None:
    """Bind `outputs: [{name, value: (expression of what was found)}]` for later steps.

    One that has a `match` binds only if what was found is so. `results` are names that are bound here alone.
    """
    for output in operation.body.get("outputs") or []:
        bindings = {**ctx.bindings, **results} if results else ctx.bindings
        if output.get("match") and any(mismatches(output["match"], found, bindings)):
            continue
        text = expression(output["value"])
        ctx.bindings[output["name"]] = evaluate(text, bindings, found) if text else output["value"]

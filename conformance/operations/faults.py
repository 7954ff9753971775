"""`fault` injects a fault into a component, and requires that it fires.

    fault: {component: scheduler, verb: update, resource: resourceclaims/status, nth: 1, answer: 409}
    fault: {await: scheduler-update-resourceclaims-status-409, timeout: 10s}
    fault: {expectFired: ID}        at once
    fault: {clear: ID}              or all

A fault that never fired is no evidence: unless it is `optional`, the step that set it fails at the end of the
cell. The keys of a fault stand in apimachinery/faults/syntax.py.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.faults.fault import FaultReport
from kubeskew.apimachinery.faults.keys import FaultError
from kubeskew.apimachinery.faults.syntax import check_keys, read
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw import expression, seconds
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.results import OperationResult
from kubeskew.conformance.scenario import Operation

CLEAR, AWAIT, EXPECT = "clear", "await", "expectFired"
TIMEOUT = "timeout"


def check(body: Mapping[str, Any], where: str) -> None:
    """Checks a `fault` before anything is started. Raises ScenarioError.

    Values that depend on the cell's parameters are checked when these are known.
    """
    verbs = [key for key in (CLEAR, AWAIT, EXPECT) if key in body]
    try:
        if verbs:
            _check_reference(body, verbs)
        else:
            check_keys(body)
            if not any(_is_open(value) for value in body.values()):
                read(body)
    except FaultError as error:
        raise ScenarioError(f"{where}: {error}") from error


def _check_reference(body: Mapping[str, Any], verbs: list[str]) -> None:
    known = [verbs[0], TIMEOUT] if verbs[0] == AWAIT else [verbs[0]]
    if unknown := [key for key in body if key not in known]:
        raise FaultError(f"{unknown[0]}: cannot be combined with {verbs[0]}{did_you_mean(unknown[0], known)}")
    if not isinstance(body[verbs[0]], str):
        raise FaultError(f"{verbs[0]}: expected the id of a fault, found {body[verbs[0]]!r}")


def _is_open(value: Any) -> bool:
    """Open values have an expression in them."""
    if isinstance(value, Mapping):
        return any(map(_is_open, value.values()))
    if isinstance(value, list):
        return any(map(_is_open, value))
    return expression(value) is not None


async def fault(ctx: CellContext, operation: Operation) -> None:
    """Set, clear or await a fault."""
    body = bind(dict(operation.body), ctx.bindings)
    check(body, f"{operation.where}.fault")
    if CLEAR in body:
        cleared = await ctx.control.clear_faults(body[CLEAR])
        for report in cleared:
            ctx.faults.pop(report.fault.id, None)
        missed = [report for report in cleared if report.missed]
        ctx.step.operations.extend(failure(report) for report in missed[1:])  # each wants a mark of its own
        if missed:
            raise StepError(f"fault {missed[0].fault.id} to fire before it is cleared", missed[0].missing())
    elif AWAIT in body or EXPECT in body:
        limit = ctx.timeout("assert") if TIMEOUT not in body else seconds(body[TIMEOUT], operation.where)
        name = body.get(AWAIT) or body[EXPECT]
        report = await ctx.control.await_fault(name, limit if AWAIT in body else 0.0)
        if not report.fired:
            raise StepError(f"fault {name} to fire", report.missing())
    else:
        await ctx.remember_pods()
        ctx.faults[await ctx.control.set_fault(body)] = ctx.step


async def unfired(ctx: CellContext) -> list[FaultReport]:
    """Optional faults are left out."""
    if not ctx.faults:
        return []
    return [
        report for report in await ctx.control.faults() if report.fault.id in ctx.faults and report.missed
    ]


def failure(report: FaultReport) -> OperationResult:
    """A step whose fault never fired gets this failure."""
    name = report.fault.id
    outcome = OperationResult(f"fault {name} fired", "fault", 0.0, block="end", about=report.fault.component)
    outcome.expected, outcome.found = f"fault {name} to fire", report.missing()
    return outcome

"""Branches the cluster off, and compares the branches: `fork`, `compare`."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import StepError
from kubeskew.conformance.evidence.branch_differences import (
    BranchDifference,
    ExpectedDifference,
    differences,
    fields,
    unexpected,
)
from kubeskew.conformance.results import StepResult
from kubeskew.conformance.scenario import Operation

_POLL_SECONDS = 0.2
_SHOWN = 12


async def fork(ctx: CellContext, operation: Operation) -> None:
    """Branch the cluster off at its newest revision, once for each branch; all of them start."""
    await ctx.remember_pods()
    names = operation.body["branches"]
    controls = await ctx.control.fork(names)
    for name, control in zip(names, controls, strict=True):
        ctx.branches[name] = ctx.of_branch(name, control)


async def compare(ctx: CellContext, operation: Operation) -> None:
    """Wait until the branches differ in just what is named; then note how they do, for the report."""
    body = bind(dict(operation.body), ctx.bindings)
    names = body.get("branches") or [*ctx.branches]
    expected = [_expected(entry) for entry in body.get("differences") or []]
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        found = await _found(ctx, names, body)
        extra, missing = unexpected(found, expected)
        if not (extra or missing) or ctx.clock.monotonic() > deadline:
            break
        await ctx.clock.sleep(_POLL_SECONDS)
    ctx.compared[ctx.step.name] = [str(each) for each in found]
    lines = [*map(str, extra), *(f"no difference {each}" for each in missing)]
    lines += _outcomes(ctx, names, body.get("outcomes") or [])
    if lines:
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        told = "; ".join(map(str, expected)) or "nothing"
        raise StepError(f"the branches to differ in {told}", "; ".join([*lines[:_SHOWN], *more]))


async def _found(ctx: CellContext, names: Sequence[str], body: Mapping[str, Any]) -> list[BranchDifference]:
    namespace, resources = body.get("namespace", ctx.namespace), body.get("resources") or []
    states = {name: fields(await ctx.branches[name].control.log(), namespace, resources) for name in names}
    return differences(states)


def _expected(entry: Mapping[str, Any]) -> ExpectedDifference:
    values = {str(branch): _text(value) for branch, value in (entry.get("values") or {}).items()}
    return ExpectedDifference(entry["object"], str(entry.get("path") or ""), values)


def _text(value: Any) -> str:
    """Returns a value as the fields of objects have it."""
    return str(value)


def _outcomes(ctx: CellContext, names: Sequence[str], expected: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the steps since the last comparison that came out otherwise in some branches, where that is not
    expected, and those that did not though it is."""
    came: dict[str, dict[str, str]] = {}
    for step, result in ctx.done:
        if step.compares:
            came.clear()
        elif step.branch in names:
            name = step.name.removeprefix(f"{step.branch}: ")
            came.setdefault(name, {})[step.branch] = _outcome(result)
    named = {entry["step"]: dict(entry.get("values") or {}) for entry in expected}
    found = []
    for name, outcomes in came.items():
        told = f"the step {name!r}: {', '.join(f'{branch} {each}' for branch, each in outcomes.items())}"
        differs = len({*outcomes.values()}) > 1
        wanted = named.pop(name, None)
        as_wanted = not differs
        if wanted is not None:
            as_wanted = differs and all(outcomes.get(branch) == each for branch, each in wanted.items())
        if not as_wanted:
            found.append(told)
    return [*found, *(f"there is no step {name!r}" for name in named)]


def _outcome(result: StepResult) -> str:
    return "notRun" if result.not_run else "failed" if result.failed else "passed"

"""Runs one cell: cluster, namespace, steps in order, and the evidence of how it went."""

import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from apimachinery.client.refs import NAMESPACES
from apimachinery.clock import Clock
from apimachinery.errors import StatusError
from conformance.bindings import bind
from conformance.context import CellContext
from conformance.control import ClusterControl
from conformance.errors import ScenarioError, StepError
from conformance.kinds import Kinds
from conformance.operations import checks, cluster, commands, objects
from conformance.scenario import Cell, Operation, Step

RUN: Mapping[str, Callable[[CellContext, Operation], Awaitable[None]]] = {
    "apply": objects.apply,
    "create": objects.create,
    "patch": objects.patch,
    "delete": objects.delete,
    "assert": checks.assert_,
    "error": checks.error,
    "wait": checks.wait,
    "undisturbed": checks.undisturbed,
    "script": commands.script,
    "sleep": commands.sleep,
    "upgrade": cluster.upgrade,
    "downgrade": cluster.downgrade,
    "gates": cluster.gates,
    "restart": cluster.restart,
    "kill": cluster.kill,
}

Progress = Callable[[str], None]


@dataclass(slots=True)
class OperationResult:
    """How one operation went; `expected` and `found` are set if it failed."""

    title: str
    kind: str
    seconds: float
    expected: str = ""
    found: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.expected)


@dataclass(slots=True)
class StepResult:
    """How one step went; `events` are the log's, from the step's start to its failure."""

    name: str
    operations: list[OperationResult] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    skipped: bool = False

    @property
    def failed(self) -> bool:
        return any(operation.failed for operation in self.operations)

    @property
    def seconds(self) -> float:
        return sum(operation.seconds for operation in self.operations)


@dataclass(slots=True)
class CellResult:
    """How a cell went. `error` is set if it could not be run at all."""

    name: str
    scenario: str
    parameters: Mapping[str, Any]
    steps: list[StepResult] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.error and not any(step.failed for step in self.steps)

    @property
    def failure(self) -> str:
        """One line that says where and why; empty if it passed."""
        if self.error:
            return self.error
        for step in self.steps:
            for operation in step.operations:
                if operation.failed:
                    where = f"{step.name}: {operation.title}"
                    return f"{where}: expected {operation.expected}; found {operation.found}"
        return ""


async def run_cell(cell: Cell, control: ClusterControl, clock: Clock, progress: Progress) -> CellResult:
    """Start the cell's cluster, run its steps, end the cluster. Never raises for what the cell finds."""
    result = CellResult(cell.name, cell.scenario.name, cell.parameters)
    started = clock.monotonic()
    try:
        if cell.scenario.cluster is not None:
            progress("starting the cluster")
            await control.start(bind(dict(cell.scenario.cluster), dict(cell.parameters)))
        await _run_steps(cell, control, clock, progress, result)
    except (ScenarioError, StatusError, aiohttp.ClientError, OSError) as error:
        result.error = f"{type(error).__name__}: {error}"
    except Exception as error:  # the cluster's own failures are the cell's, not the matrix'
        result.error = f"{error}" or traceback.format_exc()
    finally:
        if cell.scenario.cluster is not None:
            await _stop(control, result)
    result.seconds = clock.monotonic() - started
    return result


async def _stop(control: ClusterControl, result: CellResult) -> None:
    try:
        await control.stop()
    except Exception as error:  # the other cells go on
        if result.passed:
            result.error = f"stopping the cluster: {error}"


async def _run_steps(
    cell: Cell, control: ClusterControl, clock: Clock, progress: Progress, result: CellResult
) -> None:
    client = control.client()
    try:
        namespace = cell.scenario.name.replace("/", "-")
        bindings = {"namespace": namespace, **cell.parameters}
        for name, value in cell.scenario.bindings.items():
            bindings[name] = bind(value, bindings)
        ctx = CellContext(control, client, Kinds(client), clock, namespace, bindings, cell.scenario.timeouts)
        await _create_namespace(ctx)
        for step in cell.scenario.steps:
            if result.steps and (result.steps[-1].failed or result.steps[-1].skipped):
                result.steps.append(StepResult(step.name, skipped=True))
                continue
            progress(step.name)
            result.steps.append(await _run_step(ctx, step))
    finally:
        await client.close()


async def _create_namespace(ctx: CellContext) -> None:
    try:
        await ctx.client.create(NAMESPACES, {"metadata": {"name": ctx.namespace}})
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


async def _run_step(ctx: CellContext, step: Step) -> StepResult:
    """Run the operations until one fails; then collect the events since the step began."""
    result = StepResult(step.name)
    since = int((await ctx.client.list(NAMESPACES, limit=1))["metadata"]["resourceVersion"])
    for operation in step.operations:
        started = ctx.clock.monotonic()
        outcome = OperationResult(operation.title, operation.kind, 0.0)
        try:
            await RUN[operation.kind](ctx, operation)
        except StepError as error:
            outcome.expected, outcome.found = error.expected, error.found
        except StatusError as error:
            outcome.expected, outcome.found = "no error of the API", f"{error.code} {error.message}"
        except aiohttp.ClientError as error:
            outcome.expected, outcome.found = "an answer of the API server", str(error)
        outcome.seconds = ctx.clock.monotonic() - started
        result.operations.append(outcome)
        if outcome.failed:
            result.events = [event for event in await ctx.control.events(since) if _tells(event)]
            break
    return result


def _tells(event: Mapping[str, Any]) -> bool:
    """Whether an event is evidence; the renewing of leases goes on whatever happens."""
    return not (event.get("verb") == "update" and str(event.get("object")).startswith("leases."))

"""Runs one cell: cluster, namespace, steps in order, and the evidence of the outcome.

A step performs its operations in order and the blocks that follow, and gathers the evidence of failures.
"""

import traceback
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.client.refs import NAMESPACES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ImpossibleError, ScenarioError, StepError, UnboundError
from kubeskew.conformance.evidence.comparison import record
from kubeskew.conformance.evidence.components import component_runs, fault_moments
from kubeskew.conformance.evidence.lives import object_lives, pod_lives
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.kinds import Kinds
from kubeskew.conformance.operations import (
    autoscaler_simulation,
    checks,
    cluster,
    commands,
    faults,
    kubectl_output,
    logs,
    metrics,
    objects,
)
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.scenario import INVARIANTS, Cell, Operation, Step

Perform = Callable[[CellContext, Operation], Awaitable[None]]
# What runs each operation of conformance/grammar.py.
RUN: Mapping[str, Perform] = {
    "apply": objects.apply,
    "create": objects.create,
    "update": objects.update,
    "patch": objects.patch,
    "delete": objects.delete,
    "assert": checks.assert_,
    "error": checks.error,
    "wait": checks.wait,
    "undisturbed": checks.undisturbed,
    "prepared": checks.prepared,
    "request": objects.request,
    "observe": metrics.observe,
    "audit": cluster.audit,
    "migrate": cluster.migrate,
    "metric": metrics.metric,
    "podLogs": logs.pod_logs,
    "exec": commands.exec_,
    "logs": logs.logs,
    "simulate": autoscaler_simulation.simulate,
    "script": commands.script,
    "command": commands.command,
    "get": kubectl_output.get,
    "describe": kubectl_output.describe,
    "events": kubectl_output.events,
    "sleep": commands.sleep,
    "upgrade": cluster.upgrade,
    "downgrade": cluster.downgrade,
    "move": cluster.move,
    "gates": cluster.gates,
    "restart": cluster.restart,
    "kill": cluster.kill,
    "fork": cluster.fork,
    "compare": cluster.compare,
    "driver": cluster.driver,
    "kubelet": cluster.kubelet,
    "fault": faults.fault,
}

_LOG_LINES = 100  # of each process of a cell that failed


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason that a step cannot be run; `impossible` is the one that a real program gave before it."""

    why: str
    impossible: str = ""


def missing(ctx: CellContext, step: Step, before: Sequence[tuple[Step, StepResult]]) -> Missing | None:
    """A step needs other steps, and names that are bound; None if it can be run.

    Of a step that is repeated, the last time before counts.
    """
    if (step.branch or step.compares) and not ctx.branches:
        forks = (result.impossible for other, result in before if not other.branch and result.impossible)
        return Missing("the cluster was not forked", next(forks, ""))
    own = [pair for pair in before if pair[0].branch in ("", step.branch)]
    for name in step.needs:
        needed = next((result for other, result in reversed(own) if other.is_called(name)), None)
        if needed is not None and (needed.left_out or needed.failed):
            how = "was not run" if needed.left_out else "failed"
            return Missing(f"it needs the step {name!r}, which {how}", needed.impossible)
    for name in step.required_names():
        if name not in ctx.bindings:
            return Missing(f"nothing was bound to ${name}", ctx.impossible.get(name, ""))
    return None


def unbind(ctx: CellContext, operations: Sequence[Operation], impossible: str = "") -> None:
    """Removes names that these operations would have bound again: an earlier value is not meant.

    `impossible` is the reason if a real program cannot do them.
    """
    for operation in operations:
        for name in operation.outputs:
            ctx.bindings.pop(name, None)
            ctx.impossible[name] = impossible


async def perform_step(ctx: CellContext, step: Step, run: Mapping[str, Perform]) -> StepResult:
    """Runs the operations until one fails; then collects the events since the step began.

    A component's start or stop has the revision that was the newest then, which may be the step's first:
    those that were there when it began are not its own.
    """
    result = StepResult(step.name)
    ctx.begin_step(result)
    ctx.step_timeouts = step.timeouts
    since = await ctx.control.revision()
    before = len([event for event in await ctx.control.events(since) if event["revision"] == since])
    result.revisions = (since, since)
    ctx.bindings.update(step.loop)
    for name, value in step.bindings.items():
        ctx.bindings[name] = bind(value, ctx.bindings)
    await perform_block(ctx, step.operations, "try", result, run)
    if result.failed:
        events = [*await ctx.control.events(since)]
        old = before if events and events[0]["revision"] == since else 0
        result.events = [event for event in events[old:] if _is_evidence(event)]
        await perform_block(ctx, step.catch, "catch", result, run)
    await perform_block(ctx, step.finally_, "finally", result, run)
    result.revisions = (since, await ctx.control.revision())
    return result


async def perform_block(
    ctx: CellContext,
    operations: Sequence[Operation],
    block: str,
    into: StepResult,
    run: Mapping[str, Perform],
) -> None:
    """Runs operations until one fails that does not let the others go on; those behind it are not run.

    Of a test without a header, only a `try` ends so: blocks that show or clean up go on, as in Chainsaw. A
    `try` also ends at what cannot be done to a real program.
    """
    stopped, impossible = "", ""
    for operation in operations:
        outcome = OperationResult(operation.title, operation.kind, 0.0, block=block, about=operation.about)
        into.operations.append(outcome)
        unbound = [name for name in operation.names() if name not in ctx.bindings]
        if stopped or unbound:
            why = impossible or (ctx.impossible.get(unbound[0], "") if unbound and not stopped else "")
            outcome.not_run = why or stopped or f"nothing was bound to ${unbound[0]}"
            outcome.impossible = bool(why)
            unbind(ctx, [operation], why)
            if why and block == "try":
                into.impossible = into.impossible or why
            continue
        ctx.outcome = outcome
        await _perform(ctx, operation, outcome, run[operation.kind])
        if outcome.impossible:
            unbind(ctx, [operation], outcome.not_run)
            if block == "try":
                stopped = impossible = into.impossible = outcome.not_run
        if outcome.failed:
            unbind(ctx, [operation])
            if not operation.continue_on_error:
                into.stops = True
                stopped = "" if ctx.is_chainsaw and block != "try" else f"{operation.title} failed"


async def _perform(ctx: CellContext, operation: Operation, outcome: OperationResult, run: Perform) -> None:
    started = ctx.clock.monotonic()
    try:
        if operation.through:
            ctx = ctx.through(bind(operation.through, ctx.bindings))
        if operation.user is not None:
            ctx = ctx.as_user(bind(dict(operation.user), ctx.bindings))
        own = ctx.binding(operation.bindings) if operation.bindings else ctx
        await run(own, operation)
        if own is not ctx:
            ctx.bindings.update(
                {name: own.bindings[name] for name in operation.outputs if name in own.bindings}
            )
    except ImpossibleError as error:
        outcome.not_run, outcome.impossible = str(error), True
    except Exception as error:  # a defect of ours is the step's failure, and no reason to leave things behind
        outcome.expected, outcome.found, outcome.broken = failure_of(error, operation)
    outcome.seconds = ctx.clock.monotonic() - started


def failure_of(error: Exception, operation: Operation) -> tuple[str, str, bool]:
    """Gives the expectation, the failure, and True if the scenario or kubeskew is broken: then it is no
    failure that upstream could have."""
    if isinstance(error, StepError):
        return error.expected, error.found, False
    if isinstance(error, StatusError):
        return "no error of the API", f"{error.code} {error.message}", False
    if isinstance(error, CONNECTION_ERRORS):
        return "an answer of the API server", str(error) or type(error).__name__, False
    if isinstance(error, ClusterError | UserError):
        return f"{operation.kind} to be done", str(error), False
    if isinstance(error, UnboundError):
        return "an earlier step to bind the name", str(error), True
    if isinstance(error, ScenarioError):
        return "a scenario that can be run", str(error), True
    return f"{operation.kind} to be done", "".join(traceback.format_exception(error)).strip(), True


def _is_evidence(event: Mapping[str, Any]) -> bool:
    """Renewals of leases go on all the time, so that they are no evidence."""
    return not (event.get("verb") == "update" and str(event.get("object")).startswith("leases."))


@dataclass(frozen=True, slots=True)
class Moment:
    """One step or event of a running cell. `step` is the number of the step that begins, from 1; 0 if none
    does."""

    text: str
    step: int = 0
    is_last: bool = False  # nothing of the cell runs any more


OnMoment = Callable[[Moment], None]


def progress_of(on_moment: OnMoment) -> Callable[[str], None]:
    """A cluster reports its progress as texts; a cell reports moments."""
    return lambda text: on_moment(Moment(text))


async def run_cell(
    cell: Cell,
    control: ClusterControl,
    clock: Clock,
    on_moment: OnMoment,
    run: Mapping[str, Perform] = RUN,
    part: Callable[[Cell], Cell] = lambda cell: cell,
    is_recorded: Callable[[Cell], bool] = lambda _: True,
) -> CellResult:
    """Starts the cell's cluster, runs its steps, ends the cluster. A failure of the cell raises nothing.

    `run` performs the operations, by their names. `part` returns, when the cluster has started, the cell that
    is run on it. `is_recorded` returns True if the result needs a record, which takes time, for its hash or
    to be compared.
    """
    result = _result_of(cell)
    started, impossible = clock.monotonic(), ""
    branches: dict[str, CellContext] = {}
    try:
        if cell.scenario.cluster is not None:
            on_moment(Moment("starting the cluster"))
            impossible = await _noting_errors(result, _start(cell, control))
            cell, error = part(cell), result.error
            result = _result_of(cell)
            result.error = error
        if impossible:
            result.steps += [
                StepResult(step.name, not_run=impossible, impossible=impossible) for step in cell.steps()
            ]
        elif not result.error:
            await _noting_errors(result, _run_steps(cell, control, clock, on_moment, run, result, branches))
            _note_left_out(cell, result)
            gather = _gather_evidence(cell, control, result, branches, recorded=is_recorded(cell))
            await _noting_errors(result, gather)
    finally:
        if cell.scenario.cluster is not None:
            await _stop(control, result)
        on_moment(Moment("ended", is_last=True))
    _note_left_out(cell, result)
    result.seconds = clock.monotonic() - started
    return result


def _note_left_out(cell: Cell, result: CellResult) -> None:
    for step in cell.steps()[len(result.steps) :]:
        result.steps.append(StepResult(step.name, not_run="the cell ended before it"))


def _result_of(cell: Cell) -> CellResult:
    return CellResult(
        cell.name,
        cell.scenario.name,
        cell.parameters,
        expected_failures=cell.expected_failures(),
        exemptions=cell.exemptions(),
        baseline=cell.baseline,
    )


async def _start(cell: Cell, control: ClusterControl) -> None:
    await control.start(cell.cluster())


async def _noting_errors(result: CellResult, work: Awaitable[None]) -> str:
    """An exception is the cell's error, not the matrix'. The first error counts.

    The text is the reason if a real program cannot do the work, which is no error.
    """
    try:
        await work
    except ImpossibleError as error:
        return str(error)
    except (ScenarioError, StatusError, *CONNECTION_ERRORS) as error:
        result.error = result.error or f"{type(error).__name__}: {error}"
    except Exception as error:
        result.error = result.error or f"{error}" or traceback.format_exc()
    return ""


async def _stop(control: ClusterControl, result: CellResult) -> None:
    try:
        await control.stop()
    except Exception as error:  # the other cells go on
        if result.passed:
            result.error = f"stopping the cluster: {error}"


async def _gather_evidence(
    cell: Cell,
    control: ClusterControl,
    result: CellResult,
    branches: Mapping[str, CellContext],
    *,
    recorded: bool,
) -> None:
    """Gathers the evidence of the whole cell, of a fork that of its first branch, before its cluster is
    removed. Raises ScenarioError unless every log replays to the stored objects."""
    controls = [control, *(branch.control for branch in branches.values())]
    for each in controls:
        replayed, stored = await each.hashes()
        if replayed != stored:
            raise ScenarioError(
                f"the log does not replay to the objects: it comes to {replayed}, not {stored}"
            )
    first = next(iter(branches), "")
    log = await (branches[first].control if first else control).log()
    if log:
        result.began, result.ended = log[0].time, log[-1].time
    _date_steps(log, result.steps)
    judged = await _judged(control, log, branches)
    if judged is not None:
        judged.behind = next(filter(None, (step.behind for step in result.steps)), "")
    if judged is not None and (judged.failed or INVARIANTS in result.expected_failures):
        result.steps.append(judged)
    result.components = component_runs(log)
    result.branches = {name: component_runs(await each.control.log()) for name, each in branches.items()}
    result.pods = pod_lives(log)
    result.objects = object_lives(log)
    result.calls = (await control.node_records()).calls
    if not result.passed:
        result.logs = await _last_lines(control, result)
    result.faults = fault_moments(log)
    pairs = zip(cell.steps(), result.steps, strict=False)
    ends = [each.revisions[1] for step, each in pairs if step.branch in ("", first) and not each.not_run]
    if recorded:
        result.record = record(log, ends)


async def _judged(
    control: ClusterControl, log: Sequence[Logged], branches: Mapping[str, CellContext]
) -> StepResult | None:
    """Invariants are a step behind all others, which fails once for each time one was broken.

    A fork's branches are judged with their common past. None where the cluster is not judged.
    """
    logs = [(each.control, await each.control.log()) for each in branches.values()] or [(control, log)]
    found = [await each.violations(written) for each, written in logs]
    if any(each is None for each in found):
        return None
    texts = (broken.title for each in found for broken in each or ())
    result = StepResult(INVARIANTS)
    if log:
        result.revisions, result.since = (log[-1].revision,) * 2, log[-1].time
        result.until = result.since
    result.operations = [
        OperationResult("judge the log", "invariants", 0.0, "every invariant to hold", each)
        for each in dict.fromkeys(texts)
    ]
    return result


def _date_steps(log: Sequence[Logged], steps: Sequence[StepResult]) -> None:
    """Each step that was run gets the times of the log's entries at its beginning and end."""
    revisions = [entry.revision for entry in log]
    for step in steps:
        if log and not step.not_run:
            step.since, step.until = (
                log[max(bisect_right(revisions, revision) - 1, 0)].time for revision in step.revisions
            )


async def _last_lines(control: ClusterControl, result: CellResult) -> dict[str, str]:
    found = {}
    for name in dict.fromkeys(run.component for run in result.components):
        for process, (text, _) in (await control.component_logs(name, {})).items():
            found[process] = "\n".join(text.splitlines()[-_LOG_LINES:])
    return found


async def _run_steps(
    cell: Cell,
    control: ClusterControl,
    clock: Clock,
    on_moment: OnMoment,
    run: Mapping[str, Perform],
    result: CellResult,
    branches: dict[str, CellContext],
) -> None:
    """Runs every step that can be run; after a failure that is not expected, only the cleanup."""
    client = control.client()
    bindings = cell.bindings()
    namespace, timeouts = bindings["namespace"], cell.scenario.timeouts
    ctx = CellContext(control, client, Kinds(client), clock, namespace, bindings, timeouts)
    ctx.observations, ctx.branches = result.observations, branches
    ctx.is_chainsaw = cell.scenario.is_chainsaw
    try:
        await _create_namespace(ctx)
        after = ""
        behind: dict[str, str] = {}  # by branch, the first step that a real program could not do
        for number, step in enumerate(cell.steps(), 1):
            own = _context_of(ctx, step)
            lacking = Missing(after) if after else missing(own, step, ctx.done)
            if lacking is not None:
                unbind(own, step.operations, lacking.impossible)
                why = ": ".join(filter(None, (lacking.why, lacking.impossible)))
                outcome = StepResult(step.name, not_run=lacking.why, impossible=lacking.impossible and why)
            else:
                on_moment(Moment(step.name, number))
                outcome = await perform_step(own, step, run)
            before = [name for name in behind if step.compares or name in ("", step.branch)]
            outcome.behind = behind[before[0]] if before else ""
            if outcome.impossible and not before:
                why = f"it is behind the step {step.name!r}, which was not run: {outcome.impossible}"
                behind[step.branch] = why
            ctx.done.append((step, outcome))
            result.steps.append(outcome)
            if outcome.stops and result.verdict(outcome).red:
                after = f"the step {step.name!r} failed"
        try:
            if not after:
                await _expect_faults(ctx)
        finally:
            removes = cell.scenario.cluster is None and not cell.scenario.keeps_objects
            for step, outcome in reversed(ctx.done):
                if not outcome.not_run:
                    ctx.step_timeouts = step.timeouts
                    if removes:
                        outcome.operations += await objects.remove(ctx, ctx.made.pop())
                    await _clean_up(ctx, step, outcome, run)
            ctx.step_timeouts = {}
            if removes and ctx.done:
                ctx.done[-1][1].operations.extend(await objects.remove(ctx, ctx.made.pop()))
    finally:
        result.observations |= ctx.compared
        for name, branch in branches.items():
            result.observations |= {f"{name}: {key}": value for key, value in branch.observations.items()}
        for each in (ctx, *branches.values()):
            await each.close()


def _context_of(ctx: CellContext, step: Step) -> CellContext:
    """A step is run in its branch; if it compares branches, in the first."""
    if step.compares:
        return next(iter(ctx.branches.values()), ctx)
    return ctx.branches.get(step.branch, ctx)


async def _clean_up(ctx: CellContext, step: Step, outcome: StepResult, run: Mapping[str, Perform]) -> None:
    """A step before a fork is cleaned up in every branch."""
    chosen = [ctx.branches[step.branch]] if step.branch else [*ctx.branches.values()] or [ctx]
    for each in chosen:
        await perform_block(each, step.cleanup, "cleanup", outcome, run)


async def _expect_faults(ctx: CellContext) -> None:
    """A step fails if a fault of its never fired, unless what was to call for it is among what a real program
    cannot do."""
    impossible = next((result.impossible for _, result in ctx.done if result.impossible), "")
    for each in (ctx, *ctx.branches.values()):
        for report in await faults.unfired(each):
            step, outcome = each.faults[report.fault.id], faults.failure(report)
            if impossible:
                outcome = OperationResult(outcome.title, outcome.kind, 0.0, block="end", about=outcome.about)
                outcome.not_run, outcome.impossible, step.impossible = impossible, True, impossible
            step.operations.append(outcome)


async def _create_namespace(ctx: CellContext) -> None:
    try:
        await ctx.client.create(NAMESPACES, {"metadata": {"name": ctx.namespace}})
        ctx.made[-1].append((NAMESPACES, "", ctx.namespace))
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise

"""Runs cells in simulations with the faults that a seed draws, and minimizes findings."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

from kubeskew.apimachinery.clock import deadline
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.invariants.findings import ASSERTION, EXCEPTION
from kubeskew.conformance.scenario import JUDGED, Cell
from kubeskew.simulation.explore.beginnings import Beginnings
from kubeskew.simulation.explore.classes import expected
from kubeskew.simulation.explore.findings import Failure, Finding
from kubeskew.simulation.explore.jobs import FinishJob, Ran, RunJob
from kubeskew.simulation.explore.minimizer import Budget, OutOfTimeError, fewest, shortest
from kubeskew.simulation.explore.systematic import plans
from kubeskew.simulation.explore.timelines import side_by_side
from kubeskew.simulation.faults.outcome import Played
from kubeskew.simulation.faults.plan import Fault, Kind, Plan, plan_of
from kubeskew.simulation.faults.plan_generator import Calls, describe, draw
from kubeskew.simulation.loop import BrokenOffError
from kubeskew.simulation.runs import FaultyRun, Simulated

R = TypeVar("R")


class Simulations:
    """Simulations of these cells, with faults of these kinds."""

    def __init__(self, cells: Sequence[Cell], kinds: Sequence[Kind]) -> None:
        self._cells = cells
        self._kinds = kinds

    @cached_property
    def _beginnings(self) -> Beginnings:
        return Beginnings()

    def run(self, job: RunJob) -> Ran:
        """Runs a cell once.

        The seed 0 has no faults; of the others the even ones draw theirs, and the odd ones go through the
        systematic plans. These are made for calls of the run without faults, and so they are all played with
        its seed: with another one the n-th call of a component would hardly be the same.
        """
        cell = self._cells[job.cell]
        if job.plan is not None:
            plan = plan_of(job.plan)
        elif job.seed == 0 or not self._kinds:
            plan = Plan(job.seed)
        else:
            plan = self._plan(cell, job)
        return self._run(cell, plan, job.steps, partial(_ran, plan, job.seed))

    def _run(self, cell: Cell, plan: Plan, steps: int | None, summarize: Callable[[Simulated], R]) -> R:
        return self._beginnings.run(cell, FaultyRun(plan, plan.seed, steps), summarize)

    def _plan(self, cell: Cell, job: RunJob) -> Plan:
        calls = job.calls if job.calls is not None else self._run(cell, Plan(), job.steps, _calls)
        turn, odd = divmod(job.seed, 2)
        if odd and turn < len(systematic := plans(calls, self._kinds)):
            return systematic[turn]
        return draw(job.seed, replace(describe(cell), calls=calls), self._kinds)

    # -- findings

    def finish(self, job: FinishJob) -> Finding:
        """The finding has as few faults and steps as it takes, and both time lines."""
        cell, finding = self._cells[job.cell], job.finding
        if job.seconds and not finding.minimized:
            finding = self._minimized(cell, finding, Budget(deadline(job.seconds)))
        plan = plan_of(finding.plan)
        with_faults = self._run(cell, plan, finding.steps, _lines)
        without = self._run(cell, Plan(plan.seed), finding.steps, _lines)
        failure = _same(finding, with_faults.failures) or finding.failure
        events = side_by_side(with_faults.log, without.log, failure.revision)
        return replace(finding, failure=failure, log_hash=with_faults.log_hash, events=tuple(events))

    def _minimized(self, cell: Cell, finding: Finding, budget: Budget) -> Finding:
        plan = plan_of(finding.plan)

        def fails(faults: Sequence[Fault], steps: int | None = None) -> bool:
            run = FaultyRun(plan.with_faults(faults), plan.seed, steps, budget.over)
            try:
                failures = self._beginnings.run(cell, run, _failures)
            except BrokenOffError as error:
                raise OutOfTimeError from error
            return _same(finding, failures) is not None

        smallest = fewest(plan.faults, fails, budget)
        count = len(cell.steps())
        steps = shortest(count, lambda number: fails(smallest.items, number), budget)
        smaller = plan.with_faults(smallest.items)
        return replace(
            finding,
            plan=smaller.as_json(),
            faults=tuple(map(str, smaller.faults)),
            steps=steps if steps < count else None,
            minimized=True,
            trials=budget.trials,
        )


@dataclass(frozen=True, slots=True)
class _Lines:
    log: Sequence[Logged]
    log_hash: str
    failures: Sequence[Failure]


def _lines(ran: Simulated) -> _Lines:
    return _Lines(_played(ran).log, ran.log_hash, _failures(ran))


def _calls(ran: Simulated) -> Calls:
    return _played(ran).calls


def _same(finding: Finding, failures: Sequence[Failure]) -> Failure | None:
    """The same failure has the same signature; None if the run has none."""
    wanted = finding.failure.signature
    return next((failure for failure in failures if failure.signature == wanted), None)


def _ran(plan: Plan, seed: int, ran: Simulated) -> Ran:
    played = _played(ran)
    fired_faults: dict[str, list[str]] = {}
    for fault in plan.faults:
        if played.fired.get(fault.name):
            fired_faults.setdefault(fault.kind.value, []).append(str(fault))
    return Ran(
        *(seed, ran.log_hash, ran.virtual_seconds, plan.as_json(), tuple(map(str, plan.faults))),
        calls=None if plan.faults else played.calls,
        drawn=Counter(fault.kind.value for fault in plan.faults),
        fired_faults=fired_faults,
        points=played.points,
        versions=sorted({Version.parse(each.version) for each in ran.result.components if each.version}),
        failures=_failures(ran),
    )


def _played(ran: Simulated) -> Played:
    if ran.played is None:
        raise ValueError("the simulation was run without a plan")
    return ran.played


def _failures(ran: Simulated) -> list[Failure]:
    """Failures of a run: invariants, then steps of the scenario, then exceptions.

    A mark is of the run without faults: a failure that it expects need not come where some have fired.
    """
    return [*_found(ran)]


def _found(ran: Simulated) -> Iterator[Failure]:
    undisturbed = not any(_played(ran).fired.values())
    marks = [mark for name in JUDGED for mark in ran.result.expected_failures.get(name, ())]
    for violation in _played(ran).violations:
        mark = next((mark for mark in marks if mark.matched(violation.title)), None)
        known = expected(mark) if mark is not None else None
        yield Failure(violation.code, violation.message, violation.revision, mark=known)
    if ran.result.error:
        yield Failure(ASSERTION, ran.result.error)
    for step, verdict in ran.result.verdicts():
        if verdict.red and not step.not_run and (undisturbed or not verdict.missed):
            yield Failure(ASSERTION, verdict.why, step.revisions[1], step.name)
    for message in ran.failures:
        yield Failure(EXCEPTION, message)

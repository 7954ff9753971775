"""An exploration of cells gives seeds to workers, and keeps their findings, until the budget is spent.

It adds up which points of a control plane its runs have reached.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any, Protocol

from kubeskew.apimachinery.clock import Clock, deadline
from kubeskew.conformance.dealing.workers import LostError, Pool, Silent, Terms, Workers, ignore_moment
from kubeskew.conformance.invariants.findings import EXCEPTION, KnownFinding
from kubeskew.simulation.explore.findings import Failure, Finding, Origin
from kubeskew.simulation.explore.jobs import FinishJob, Laboratory, Ran, RunJob
from kubeskew.simulation.explore.report import Kept
from kubeskew.simulation.faults.plan_generator import Calls

MINIMIZE_SECONDS = 60.0  # for all findings together
_PATIENCE = 300.0  # seconds that a job may take, on a busy machine
_RUNS_PER_WORKER = 100  # after which it is replaced
_POLL_SECONDS = 0.5
_SEEDS_IN_TURN = 16  # of one cell, before the next one has its turn


@dataclass(slots=True)
class Coverage:
    """Counts runs by the points that they reached, and faults by how often they were drawn and fired.

    A point is a text `GROUP: POINT`, such as `crash: scheduler after update resourceclaims/status`.
    """

    points: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)  # faults, by kind
    fired: Counter[str] = field(default_factory=Counter)

    def add(self, points: Iterable[str], drawn: Mapping[str, int], fired: Mapping[str, int]) -> int:
        """Returns the number of points that no run had reached before."""
        reached = dict.fromkeys(points, 1)
        new = sum(point not in self.points for point in reached)
        self.points.update(reached)
        self.drawn.update(drawn)
        self.fired.update(fired)
        return new

    def as_json(self) -> dict[str, Any]:
        """Points are counted by group, drawn and fired faults by kind."""
        groups = Counter(point.partition(":")[0] for point in self.points)
        return {
            "points": len(self.points),
            "groups": dict(sorted(groups.items())),
            "faults": {
                kind: {"drawn": self.drawn[kind], "fired": self.fired[kind]} for kind in sorted(self.drawn)
            },
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits an exploration: to a number of runs over all cells, to seconds, or to the runs of `only`."""

    seeds: int | None = None
    seconds: float | None = None
    only: Sequence[RunJob] = ()
    until: str = ""  # a regular expression: the first finding whose title has it ends the exploration
    minimize: bool = True


@dataclass(frozen=True, slots=True)
class Pace:
    """Progress of an exploration: runs and seconds, with their limits."""

    done: float
    wanted: float | None
    text: str  # all numbers, in a line


class Watcher(Protocol):
    """Receives progress of an exploration, to show it."""

    def say(self, text: str) -> None: ...

    def pace(self, pace: Pace) -> None:
        """The pace comes several times a second."""
        ...


class Exploration:
    """One exploration of cells. `explore` returns when the budget is spent; its findings stay in it, also if
    it is interrupted."""

    def __init__(
        self,
        origins: Sequence[Origin],
        laboratory: Laboratory,
        entries: Sequence[KnownFinding],
        clock: Clock,
        watcher: Watcher,
        kept: Kept | None = None,
    ) -> None:
        self._origins = origins
        self._in_turns = _scenarios_in_turns(origins)
        self._laboratory = laboratory
        self._entries = entries
        self._clock = clock
        self._watcher = watcher
        self._kept = kept
        self._done: dict[tuple[str, int], None] = {}
        self._before = 0.0  # seconds of earlier explorations that this one goes on with
        self._fresh = 0  # runs of this one
        self._began: datetime = clock.now()
        self._ended: datetime | None = None
        self._calls: dict[int, Calls] = {}  # of cells' runs without faults
        self.log_hashes: dict[tuple[str, int], str] = {}
        self.findings: dict[str, Finding] = {}  # by id
        self.coverage = Coverage()
        if kept is not None:
            self._take_up(kept)
            kept.begin()

    def _take_up(self, kept: Kept) -> None:
        for run in kept.earlier():
            self._done[run["cell"], run["seed"]] = None
            self.coverage.add(run["points"], run["drawn"], run["fired"])
            self._before = run["seconds"]
        if self._done:
            self.findings = {finding.id: finding for finding in kept.findings()}
            self._watcher.say(f"{len(self._done)} runs and {len(self.findings)} findings of before")

    @property
    def runs(self) -> int:
        return len(self._done)

    @property
    def seconds(self) -> float:
        """The time of minimizing does not count."""
        return self._before + ((self._ended or self._clock.now()) - self._began).total_seconds()

    def explore(self, pool: Pool, budget: Budget) -> None:
        """Explores with the workers of a pool; then minimizes the new findings and lays their runs side by
        side."""
        known = dict(self.findings)
        work = self._laboratory
        try:
            run, terms = Silent(work.run), Terms(_PATIENCE, _RUNS_PER_WORKER, self._run_label)
            with pool.workers(run, terms, ignore_moment, self._watcher.say) as workers:
                self._run_all(workers, budget)
        finally:
            self._ended = self._clock.now()
        left = [finding for name, finding in self.findings.items() if name not in known]
        left += [finding for finding in known.values() if not finding.events]  # interrupted before
        left = [finding for finding in left if finding.plan]  # a run that did not end has left no plan
        if left:
            finish, terms = Silent(work.finish), Terms(_PATIENCE, _RUNS_PER_WORKER, _finish_label)
            with pool.workers(finish, terms, ignore_moment, self._watcher.say) as finishers:
                self._finish_all(finishers, left, minimize=budget.minimize)

    def _run_label(self, job: RunJob) -> str:
        return f"{self._origins[job.cell].cell} seed {job.seed}"

    # -- runs

    def _run_all(self, workers: Workers[RunJob, Ran], budget: Budget) -> None:
        jobs, wanted = self._jobs(budget), self._wanted(budget)
        passed = deadline(budget.seconds) if budget.seconds is not None else lambda: False

        def over() -> bool:
            return passed() or self._has(budget.until)

        job = next(jobs, None)
        while (job is not None and not over()) or workers.busy:
            while job is not None and workers.free and not over():
                workers.give(job)
                job = next(jobs, None)
            for ended, answer in workers.ended(_POLL_SECONDS):
                self._note(ended, answer)
            self._watcher.pace(self._pace(budget, wanted))

    def _has(self, wanted: str) -> bool:
        return bool(wanted) and any(re.search(wanted, each.title) for each in self.findings.values())

    def _jobs(self, budget: Budget) -> Iterator[RunJob]:
        """Runs are in order: the first seed of every cell, then some more of each, and again.

        Seeds of one cell follow each other, because its cluster is started once for them. Scenarios take
        turns with their cells, so that an exploration that ends early has been at each of them.
        """
        if budget.only:
            yield from budget.only
            return
        first, last = 0, 1
        while self._seeds_of(0, budget) > first:  # no cell gets more than the first
            for place, index in enumerate(self._in_turns):
                origin = self._origins[index]
                for seed in range(first, min(last, self._seeds_of(place, budget))):
                    if (origin.cell, seed) not in self._done:
                        yield RunJob(index, seed, self._calls.get(index))
            first, last = last, last + _SEEDS_IN_TURN

    def _seeds_of(self, place: int, budget: Budget) -> int:
        """Cells get equal shares of all seeds; the first ones in the order get one more if need be."""
        if budget.seeds is None:
            return sys.maxsize
        each, more = divmod(budget.seeds, len(self._origins))
        return each + (place < more)

    def _wanted(self, budget: Budget) -> int | None:
        """None if the number of runs has no limit."""
        if budget.only:
            return len(budget.only)
        return None if budget.seeds is None else sum(1 for _ in self._jobs(budget))

    def _pace(self, budget: Budget, wanted: int | None) -> Pace:
        """Of two limits, the nearer one counts; explorations that this one goes on with do not."""
        seconds = self.seconds - self._before
        by_time = Pace(seconds, budget.seconds, self.progress)
        by_runs = Pace(self._fresh, wanted, self.progress)
        if budget.seconds is None or not wanted:
            return by_runs if budget.seconds is None else by_time
        return max(by_runs, by_time, key=lambda pace: pace.done / (pace.wanted or 1))

    @property
    def progress(self) -> str:
        elapsed = max(self.seconds - self._before, 1e-3)
        open_ = sum(finding.verdict.fails for finding in self.findings.values())
        found = f"{len(self.findings)} findings, {open_} of them defects or unknown"
        points = len(self.coverage.points)
        return f"{self.runs} runs, {self._fresh / elapsed:.2f} a second: {found}; {points} points reached"

    def _note(self, job: RunJob, answer: Ran | LostError) -> None:
        origin = self._origins[job.cell]
        ran = _lost(job, answer) if isinstance(answer, LostError) else answer
        self._done[origin.cell, job.seed] = None
        self._fresh += 1
        self.log_hashes[origin.cell, job.seed] = ran.log_hash
        if ran.calls is not None:
            self._calls[job.cell] = ran.calls
        self.coverage.add(ran.points, ran.drawn, ran.fired)
        found = self._found(origin, job, ran)
        different = {each.id: each for each in reversed(found)}  # of several alike the first
        for finding in different.values():
            self._add(finding)
        if self._kept is not None:
            self._kept.note(self._line(origin, ran, sorted(different)))

    def _line(self, origin: Origin, ran: Ran, findings: Sequence[str]) -> Mapping[str, Any]:
        return {
            "cell": origin.cell,
            "seed": ran.seed,
            "logHash": ran.log_hash,
            "virtualSeconds": ran.virtual_seconds,
            "seconds": round(self.seconds, 1),
            "drawn": dict(ran.drawn),
            "fired": ran.fired,
            "points": list(ran.points),
            "findings": findings,
        }

    def _found(self, origin: Origin, job: RunJob, ran: Ran) -> list[Finding]:
        return [
            Finding(
                *(origin, ran.seed, failure, verdict, ran.plan, ran.faults, ran.log_hash), steps=job.steps
            )
            for failure, verdict in ran.classed(self._entries, origin.bugs)
        ]

    def _add(self, finding: Finding) -> None:
        known = self.findings.get(finding.id)
        combined = finding if known is None else known.again(finding)
        if known is None or combined.verdict != known.verdict:
            self._watcher.say(f"{finding.origin.cell} seed {finding.seed}: {finding.title}")
        self.findings[finding.id] = finding = combined
        if self._kept is not None:
            self._kept.keep(finding)

    # -- what was found

    def _finish_all(
        self,
        workers: Workers[FinishJob, Finding],
        findings: Sequence[Finding],
        *,
        minimize: bool,
    ) -> None:
        """Findings that somebody has to look at are minimized first."""
        numbers = {origin.cell: index for index, origin in enumerate(self._origins)}
        waiting = sorted(findings, key=lambda finding: (not finding.verdict.fails, finding.id))
        over = deadline(MINIMIZE_SECONDS)
        share = MINIMIZE_SECONDS * min(workers.count, len(waiting)) / max(len(waiting), 1)
        self._watcher.say(f"comparing the runs of {len(waiting)} findings")
        while waiting or workers.busy:
            while waiting and workers.free:
                finding = waiting.pop(0)
                seconds = share if minimize and not over() else 0.0
                workers.give(FinishJob(numbers[finding.origin.cell], finding, seconds))
            for job, answer in workers.ended(_POLL_SECONDS):
                if isinstance(answer, LostError):
                    self._watcher.say(f"{job.finding.id}: its time lines are missing: {answer}")
                else:
                    self._finished(answer)

    def _finished(self, finding: Finding) -> None:
        smaller = replace(finding, seen=self.findings[finding.id].seen)
        self.findings[finding.id] = smaller
        if self._kept is not None:
            self._kept.keep(smaller)
        self._watcher.say(f"{finding.id}: {smaller.size}")

    def as_json(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "seconds": round(self.seconds, 1),
            "findings": [self.findings[name].as_json() for name in sorted(self.findings)],
            "coverage": self.coverage.as_json(),
        }

    @property
    def summary(self) -> str:
        classes = Counter(finding.verdict.class_ for finding in self.findings.values())
        counts = ", ".join(f"{count} {name}" for name, count in sorted(classes.items())) or "none"
        missed = self.coverage.drawn.total() - self.coverage.fired.total()
        return (
            f"{self.runs} runs in {self.seconds:.1f} s; findings: {counts}\n"
            f"{self.coverage.drawn.total()} faults drawn, {missed} of them never fired; "
            f"{len(self.coverage.points)} points reached"
        )

    @property
    def failed(self) -> bool:
        return any(finding.verdict.fails for finding in self.findings.values())


def _scenarios_in_turns(origins: Sequence[Origin]) -> list[int]:
    """Numbers of cells: the first one of each scenario, then the second one of each."""
    cells: dict[str, list[int]] = {}
    for index, origin in enumerate(origins):
        cells.setdefault(origin.source, []).append(index)
    turns = zip_longest(*cells.values())
    return [index for turn in turns for index in turn if index is not None]


def _lost(job: RunJob, error: LostError) -> Ran:
    """A run that did not end as it should is a finding, too."""
    lines = str(error).strip().splitlines()
    return Ran(job.seed, "", 0.0, {}, (), failures=[Failure(EXCEPTION, f"the simulation: {lines[-1]}")])


def _finish_label(job: FinishJob) -> str:
    return f"the telling of {job.finding.id}"

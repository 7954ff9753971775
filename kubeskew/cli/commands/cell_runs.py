"""Runs of the cells that `run` and `matrix` have chosen, their progress, and the report.

Progress is shown by bars on a terminal, else by a line per cell, or by every line with -v.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cli import live
from kubeskew.cli.commands.options import interrupted_by_sigterm, run_async, show_progress
from kubeskew.cli.commands.run_flags import RunFlags, dask_pool
from kubeskew.cluster.failures import ClusterError, EndedEarlyError, UserError
from kubeskew.cluster.fork_client import component_processes
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.skew import UPGRADE_ORDER
from kubeskew.conformance import matrix_runs
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.controls import KubeconfigControl
from kubeskew.conformance.dealing.cells import OnProcesses, deal_cells, local_control
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.matrix_runs import OUTCOMES, Audience
from kubeskew.conformance.report import Part, Repeating, Run, subsets_of, write
from kubeskew.conformance.results import FAILED, CellResult
from kubeskew.conformance.resumption import REPORT, digest_of, digest_of_package, taken_over
from kubeskew.conformance.runner import Moment
from kubeskew.conformance.scenario import Cell

T = TypeVar("T")


def outcome_line(result: CellResult) -> str:
    why = "" if result.passed else f": {result.failure.splitlines()[0]}"
    if (lanes := result.side_by_side) is not None:
        why = f", emulated {OUTCOMES[lanes.emulated.outcome]}, {len(lanes.differences)} differences{why}"
    return f"{result.name}: {OUTCOMES[result.outcome]} in {result.seconds:.1f} s{why}"


@dataclass
class PlainLines:
    total: int
    verbose: bool
    ended_cells: int = 0

    def on_moment(self, cell: Cell, moment: Moment) -> None:
        """Prints what a cell does, if that is asked for."""
        if self.verbose and not moment.is_last:
            show_progress(f"{cell.name}: {moment.text}")

    def ended(self, result: CellResult) -> None:
        self.ended_cells += 1
        show_progress(f"{self.ended_cells}/{self.total} {outcome_line(result)}")

    def say(self, text: str) -> None:
        show_progress(text)


@dataclass
class Bars:
    """Draws a bar for each cell that runs and one for all; failures stay as lines."""

    screen: live.Screen
    total: int
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.screen.whole(self.total, "")

    def on_moment(self, cell: Cell, moment: Moment) -> None:
        """Draws what a cell does: the number of its step among all of them."""
        if moment.is_last:
            self.screen.gone(cell.name)
            return
        done = moment.step - 1 if moment.step else None
        self.screen.bar(cell.name, done, len(cell.steps()), moment.text)

    def ended(self, result: CellResult) -> None:
        self.counts[result.outcome] = self.counts.get(result.outcome, 0) + 1
        counted = [f"{self.counts[each]} {OUTCOMES[each]}" for each in OUTCOMES if each in self.counts]
        self.screen.whole(self.total, ", ".join(counted))
        if result.outcome == FAILED:
            self.screen.line(outcome_line(result))

    def say(self, text: str) -> None:
        self.screen.line(text)


@contextmanager
def cells_shown(total: int, *, verbose: bool) -> Iterator[Audience]:
    if verbose or not live.is_terminal():
        yield PlainLines(total, verbose)
        return
    with live.screen() as screen:
        yield Bars(screen, total)


def checked(work: Callable[[], T]) -> T:
    """Errors of a scenario become UserError."""
    try:
        return work()
    except ScenarioError as error:
        raise UserError(str(error)) from error


def processes_for(asked: RunFlags, kubeconfig: Path | None) -> AbstractContextManager[Processes]:
    """Components are imported in advance while scenarios are read, if any will be started."""
    none = kubeconfig or asked.listing or asked.simulate or asked.dask
    kinds = () if none else UPGRADE_ORDER
    return component_processes(*kinds, often=True, dependent=True)


@dataclass(frozen=True, slots=True)
class Assignment:
    selection: Selection
    cells: Sequence[Cell]
    again: Repeating
    part: Part | None  # set if the cells are a shard of all


def part_of(whole: Sequence[Cell], shard: tuple[int, int] | None, again: Repeating) -> Part | None:
    """`again` repeats the whole; without a shard the result is None."""
    if shard is None:
        return None
    scenarios = {cell.scenario.name: cell.scenario for cell in whole}
    digests = {name: digest_of(scenario) for name, scenario in scenarios.items()}
    return Part(*shard, again.run(), digest_of_package().hex(), [cell.name for cell in whole], digests)


def run_cells(assignment: Assignment, asked: RunFlags, kubeconfig: Path | None, processes: Processes) -> Run:
    """Runs the cells and writes the report, also of an interrupted run."""
    clock = SystemClock()
    started = clock.now()
    cells = assignment.cells
    if not kubeconfig:  # a test without a cluster gets the default one
        cells = [
            replace(cell, scenario=replace(cell.scenario, cluster=cell.scenario.cluster or {}))
            for cell in cells
        ]
    taken: list[CellResult] = []
    if asked.resume and asked.report:
        report = asked.report
        taken = checked(lambda: taken_over(report, assignment.selection.title, cells))
        show_progress(f"{len(taken)} of {len(cells)} cells taken over from {report / REPORT}")
    known = {result.name for result in taken}
    done: list[CellResult] = [*taken]

    left = [cell for cell in cells if cell.name not in known]
    try:
        with cells_shown(len(left), verbose=asked.verbose) as audience, interrupted_by_sigterm():
            results = _results(left, asked, kubeconfig, processes, audience, done)
    except KeyboardInterrupt:
        _finish(assignment, started, matrix_runs.interrupted(cells, done), asked.report)
        raise
    except EndedEarlyError as error:
        _finish(assignment, started, matrix_runs.interrupted(cells, done), asked.report)
        kept = f"in {asked.report / REPORT}: --resume goes on" if asked.report else "kept only with --report"
        raise EndedEarlyError(f"{error}; {len(done)} of {len(cells)} cells are done, {kept}") from error
    by_name = {result.name: result for result in (*taken, *results)}
    return _finish(assignment, started, [by_name[cell.name] for cell in cells], asked.report)


def _results(
    cells: Sequence[Cell],
    asked: RunFlags,
    kubeconfig: Path | None,
    processes: Processes,
    audience: matrix_runs.Audience,
    done: list[CellResult],
) -> list[CellResult]:
    if asked.simulate:
        from kubeskew.simulation.runs import processes_of_machine, simulate_cells

        here = nullcontext(processes_of_machine(min(asked.jobs, len(cells))))
        with dask_pool(asked.dask, cells) if asked.dask else here as pool:
            return simulate_cells(cells, asked.seed or 0, audience, pool, done)
    if asked.dask:
        with dask_pool(asked.dask, cells) as pool:
            return deal_cells([[cell] for cell in cells], pool, OnProcesses(), audience, done)

    def control_for(_cell: Cell, progress: Callable[[str], None]) -> ClusterControl:
        if kubeconfig:
            return KubeconfigControl(kubeconfig)
        return local_control(progress, processes, keep=asked.keep)

    jobs = matrix_runs.on_one_cluster(cells, asked.jobs) if kubeconfig else asked.jobs
    return run_async(matrix_runs.run_cells(cells, control_for, SystemClock(), audience, jobs, done))


def _finish(
    assignment: Assignment, started: datetime, results: Sequence[CellResult], report: Path | None
) -> Run:
    selection, again, part = assignment.selection, assignment.again, assignment.part
    finished = Run(selection.title, started, results, subsets_of(selection.scenarios), again, part)
    if report:
        write_to(report, lambda: write(finished, report))
    return finished


def write_to(directory: Path, writing: Callable[[], None]) -> None:
    """An OSError becomes a ClusterError."""
    try:
        writing()
    except OSError as error:
        raise ClusterError(f"cannot write the report to {directory}: {error.strerror}") from error

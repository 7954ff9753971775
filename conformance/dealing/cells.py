"""Gives cells to workers, in groups that stay together, and collects their results.

A process runs its cells on clusters of its own, of this machine. A worker on another machine also needs the
files that cells read while they run.
"""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cluster.fork_client import ForkedProcesses
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import ExecutedProcesses, Processes
from kubeskew.conformance.chainsaw import expression, named_files
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.dealing.workers import DiedError, LostError, OnCellMoment, Pool, Terms, Work
from kubeskew.conformance.matrix_runs import Audience, compare, note_end
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resumption import digest_of
from kubeskew.conformance.runner import Moment, progress_of, run_cell
from kubeskew.conformance.scenario import Cell, Scenario

_PROGRAMS = ("script", "command")  # operations that run in the scenario's folder
Group = Sequence[Cell]

_POLL_SECONDS = 0.5
_TRIALS = 2  # of a group whose process ends by itself


def files_of(cells: Sequence[Cell]) -> dict[str, str]:
    """SHA-256 by absolute path of the files that cells name.

    The scenario's own file is among them if it runs programs, for the folder that it is in. A name that an
    expression computes is known only when it is read.
    """
    scenarios = {cell.scenario.source: cell.scenario for cell in cells if cell.scenario.source}
    paths = {str(path.absolute()): path for each in scenarios.values() for path in _named(each)}
    return {name: sha256(path.read_bytes()).hexdigest() for name, path in sorted(paths.items())}


def _named(scenario: Scenario) -> Iterator[Path]:
    for step in scenario.steps:
        for operation in step.all_operations():
            name = operation.body.get("file")
            if operation.kind in _PROGRAMS:
                yield Path(scenario.source)
            elif operation.kind != "kubelet" and isinstance(name, str) and expression(name) is None:
                yield from named_files(operation.where, name)


def deal_cells(
    groups: Sequence[Group],
    pool: Pool,
    work: Work[Group, list[CellResult]],
    audience: Audience,
    done: list[CellResult],
) -> list[CellResult]:
    """Workers of a pool run groups of cells; results come in the order of the groups.

    If the run is interrupted, `done` has the results so far. A group whose process has ended by itself is
    given to another worker, once; after that, and where the work itself fails, its cells have the error.
    """
    cells = {cell.name: cell for group in groups for cell in group}
    trials: dict[str, int] = {}  # by the first cell of a group

    def on_moment(name: str, moment: Moment) -> None:
        if name in cells:
            audience.on_moment(cells[name], moment)

    def note(results: Sequence[CellResult]) -> None:
        for result in results:
            note_end(result, digest_of(cells[result.name].scenario), audience)
            done.append(result)
            found[result.name] = result

    found: dict[str, CellResult] = {}
    terms = Terms(patience=float("inf"), jobs=1 << 31, label=_names)
    waiting = sorted(groups, key=len, reverse=True)  # a large group at the end would keep one worker alone
    with pool.workers(work, terms, on_moment, audience.say) as workers:
        while waiting or workers.busy:
            while waiting and workers.free:
                workers.give(waiting.pop(0))
            for group, answer in workers.ended(_POLL_SECONDS):
                if not isinstance(answer, LostError):
                    note(answer)
                    continue
                first = group[0].name
                trials[first] = trials.get(first, 0) + 1
                if isinstance(answer, DiedError) and trials[first] < _TRIALS:
                    audience.say(f"{_names(group)}: {answer}; to be run again")
                    waiting.insert(0, group)
                else:
                    note([_lost(cell, answer) for cell in group])
    ordered = [found[name] for name in cells]
    compare(ordered)
    return ordered


def _names(group: Group) -> str:
    others = len(group) - 1
    return group[0].name + (f" and {others} others that begin alike" if others else "")


def _lost(cell: Cell, error: LostError) -> CellResult:
    why = str(error).strip().splitlines()[-1]
    return CellResult(cell.name, cell.scenario.name, cell.parameters, error=why)


def local_control(progress: Callable[[str], None], processes: Processes, *, keep: bool) -> LocalControl:
    directory = Path(tempfile.mkdtemp(prefix="kubeskew-"))  # short, for the paths of sockets are limited
    return LocalControl(directory, Platform(SystemClock(), processes), progress, keep=keep)


class OnProcesses:
    """Runs cells one after another, in a process that does nothing else; SIGTERM ends them and it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._processes: Processes = ExecutedProcesses()

    def __call__(self, job: Sequence[Cell], on_moment: OnCellMoment) -> list[CellResult]:
        if self._runner is None:
            self._runner = asyncio.Runner()  # kept, with what forks components: both belong to this process
            if sys.platform == "linux":
                self._processes = ForkedProcesses(often=True, dependent=True)
        try:
            return self._runner.run(self._run(job, on_moment))
        except asyncio.CancelledError:
            sys.exit(128 + signal.SIGTERM)

    async def _run(self, cells: Sequence[Cell], on_moment: OnCellMoment) -> list[CellResult]:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return [await self._result(cell, on_moment) for cell in cells]
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    async def _result(self, cell: Cell, on_moment: OnCellMoment) -> CellResult:
        def report(moment: Moment) -> None:
            on_moment(cell.name, moment)

        control = local_control(progress_of(report), self._processes, keep=False)
        return await run_cell(cell, control, SystemClock(), report)

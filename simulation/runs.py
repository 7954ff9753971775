"""Runs of cells in simulations: one cell, or the cells of a matrix, those with the same cluster together.

A cluster that several cells have is started once. A trace records the callbacks of a run, and where another
run differs. Objects from before a simulation are exempt from garbage collection.
"""

import asyncio
import gc
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kubeskew.apiserver.storage.memory_log import MemoryRecords
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.programs.inspection import Program
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.dealing.cells import deal_cells
from kubeskew.conformance.dealing.forked import ForkedPool, HerePool
from kubeskew.conformance.dealing.frozen_objects import frozen
from kubeskew.conformance.dealing.workers import OnCellMoment, Pool
from kubeskew.conformance.matrix import with_same_cluster
from kubeskew.conformance.matrix_runs import Audience
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import RUN, Moment, OnMoment, progress_of, run_cell
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.faults.control import FaultyControl
from kubeskew.simulation.faults.operations import under_faults
from kubeskew.simulation.faults.outcome import Played
from kubeskew.simulation.faults.plan import Plan
from kubeskew.simulation.forks import Branches
from kubeskew.simulation.loop import SimulatedLoop, process_of
from kubeskew.simulation.machine import CountedPorts, Site, write_repeatable_credentials
from kubeskew.simulation.network import ProbeTransport
from kubeskew.simulation.processes import Process, ProcessLogs

_NAMELESS = "Task-"  # begins the names that asyncio gives, which count on from run to run
STATE, _SOCKETS = Path("state"), Path("run")
_BEGINNING_SEED = 0  # of clusters with faults, until they have started
_MEMORY = Path("/dev/shm")  # noqa: S108 - files of a simulation need no disk


@contextmanager
def collecting_in_turns() -> Iterator[None]:
    """Leaves the collection of garbage to the loop, which does it after a fixed number of callbacks.

    An asynchronous generator that is collected is closed by a task. So the time of a collection decides the
    order of tasks, and it must not depend on earlier work of the interpreter. Garbage of the simulation is
    collected when it has ended, so that it does not affect the next one.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        with frozen():
            try:
                yield
            finally:
                gc.collect()
    finally:
        if enabled:
            gc.enable()


class Trace:
    """Records every callback: its virtual time, its process, its code. With an earlier trace it compares as
    it goes, and keeps the first difference."""

    def __init__(self, before: "Trace | None" = None) -> None:
        self.steps: list[str] = []
        self.difference = ""
        self._before: Sequence[str] | None = before.steps if before is not None else None

    def note(self, time: float, process: Process | None, handle: Any) -> None:
        who = process.name if process is not None else "the scenario"
        number = len(self.steps)
        step = f"{time:.6f} s, {who}: {_code(handle._callback)}"  # noqa: SLF001 - it has no other name
        self.steps.append(step)
        if self._before is None or self.difference:
            return
        if number >= len(self._before):
            self.difference = f"step {number}: {step}; before, it had ended"
        elif self._before[number] != step:
            self.difference = f"step {number}: {step}; before, {self._before[number]}"


def _code(callback: Any) -> str:
    """A task's step has the names of its coroutine and its own."""
    task: Any = getattr(callback, "__self__", None)
    if not hasattr(task, "get_coro"):
        return str(getattr(callback, "__qualname__", type(callback).__name__))
    work = task.get_coro()
    name = str(getattr(work, "__qualname__", type(work).__name__))
    given = task.get_name()
    return name if given.startswith(_NAMELESS) else f"{name} ({given})"


@dataclass(slots=True)
class Simulated:
    """The result of one simulation, and the identity of the run."""

    result: CellResult
    seed: int
    log_hash: str
    virtual_seconds: float
    requests: int
    failures: list[str] = field(default_factory=list)  # of tasks that nobody awaited
    seconds: dict[str, float] = field(default_factory=dict)  # of CPU, by component
    played: Played | None = None  # results of the plan, if there was one


class Course(Protocol):
    """Decides how a simulation goes on when its cluster has started, and receives its result.

    A process that is forked then has a course of its own.
    """

    def part(self, cell: Cell) -> Cell:
        """The steps of this cell are run."""
        ...

    def finish(self, simulated: Simulated) -> None:
        """Receives the result. Does not return in a process that has nothing else to do."""
        ...


@dataclass(slots=True)
class FaultyRun:
    """A run with faults: its plan, the seed of all that is drawn when the cluster has started, and how many
    of the scenario's first steps are run, if not all. It is broken off, with BrokenOffError, when `over`
    returns True."""

    plan: Plan
    seed: int
    steps: int | None = None
    over: Callable[[], bool] | None = None


class FaultyCourse(Course, Protocol):
    """A course with faults."""

    def choose(self) -> FaultyRun:
        """The cluster has started when this is called."""
        ...


class _Alone:
    """One cell is run without faults."""

    def part(self, cell: Cell) -> Cell:
        return cell

    def finish(self, simulated: Simulated) -> None:
        """Does nothing: the caller has the result."""


class _AloneWithFaults(_Alone):
    """One plan is played."""

    def __init__(self, run: FaultyRun) -> None:
        self._run = run

    def choose(self) -> FaultyRun:
        return self._run

    def part(self, cell: Cell) -> Cell:
        return with_steps(cell, self._run.steps)


def with_steps(cell: Cell, steps: int | None) -> Cell:
    if steps is None:
        return cell
    return replace(cell, scenario=replace(cell.scenario, parts=tuple(cell.steps()[:steps])))


def simulate(
    cell: Cell, seed: int, on_moment: OnMoment, *, measures: bool = False, trace: Trace | None = None
) -> Simulated:
    """The cell has a cluster of its own. `trace` records all callbacks."""
    with collecting_in_turns():
        return _simulate(cell, seed, on_moment, _Alone(), None, trace=trace, measures=measures)


def simulate_with_faults(
    cell: Cell, run: FaultyRun, on_moment: OnMoment, *, trace: Trace | None = None
) -> Simulated:
    """The cell has a cluster of its own; the faults of a plan, be it an empty one, are played and healed, and
    the run is judged by the invariants."""
    return simulate_faulty_course(cell, _AloneWithFaults(run), on_moment, trace=trace)


def simulate_faulty_course(
    cell: Cell, course: FaultyCourse, on_moment: OnMoment = lambda _: None, *, trace: Trace | None = None
) -> Simulated:
    """The cluster of a cell starts, the same way for all plans and seeds, and the course decides how it goes
    on."""
    with collecting_in_turns():
        return _simulate(cell, _BEGINNING_SEED, on_moment, course, course.choose, trace=trace)


def simulate_alike(
    cells: Sequence[Cell], seed: int, on_moment: Callable[[Cell, Moment], None]
) -> list[Simulated]:
    """Runs cells with the same cluster, which is started once. Each writes the same as alone.

    Raises BranchError if one has not come to its end.
    """
    branches: Branches[Simulated] = Branches(cells, new_directory)
    with collecting_in_turns():
        try:
            last = _simulate(cells[0], seed, lambda moment: on_moment(branches.cell, moment), branches, None)
        except BaseException:
            branches.forks.fail()
            raise
    return [*(branches.results[cell.name] for cell in cells[:-1]), last]


def _simulate(
    cell: Cell,
    seed: int,
    on_moment: OnMoment,
    course: Course,
    choose: Callable[[], FaultyRun] | None,
    *,
    trace: Trace | None = None,
    measures: bool = False,
) -> Simulated:
    loop = SimulatedLoop()
    loop.measures = measures
    if trace is not None:
        loop.observe = lambda handle: trace.note(loop.time(), process_of(handle), handle)
    servers = int((cell.cluster() or {}).get("ha", 1))
    with process_logs(), running_site(loop, seed, servers) as (site, platform):
        control, run, faulty = LocalControl(STATE, platform, progress_of(on_moment)), RUN, None
        if choose is not None:
            control = faulty = FaultyControl(
                STATE, platform, progress_of(on_moment), _chosen(choose, site, loop), site, loop
            )
            run = under_faults(RUN, faulty, cell.expected_failures())
        is_recorded = _is_compared if faulty is None else _never
        work = run_cell(cell, control, site.clock, on_moment, run, course.part, is_recorded)
        result = loop.run_until_complete(work)
        result.seed, result.log_hash = site.streams.seed, digest(*site.storage.all())
        simulated = Simulated(
            *(result, result.seed, result.log_hash, loop.time(), site.network.requests, [*loop.failures]),
            seconds=_seconds(site),
            played=faulty.played if faulty is not None else None,
        )
        course.finish(simulated)
        return simulated


def _chosen(choose: Callable[[], FaultyRun], site: Site, loop: SimulatedLoop) -> Callable[[], Plan]:
    """The chosen run's seed counts from then on."""

    def plan() -> Plan:
        run = choose()
        loop.over = run.over
        site.streams.go_on_with(run.seed)
        return run.plan

    return plan


@contextmanager
def running_site(loop: SimulatedLoop, seed: int, servers: int = 1) -> Iterator[tuple[Site, Platform]]:
    """The site and platform are for clusters of `servers` API servers; the loop ends with them.

    The working directory is another until then.
    """
    with _own_directory():
        asyncio.set_event_loop(loop)
        try:
            site = Site(seed, servers=servers)
            ports = CountedPorts()
            platform = Platform(
                clock=site.clock,
                processes=site.processes,
                connect=lambda directory: ProbeTransport(site.network, directory),
                storage=site.storage,
                ports=lambda: ports,
                credentials=write_repeatable_credentials,
                dial=site.dial,
                new_runtime_dir=_runtime_dirs(),
                inspect=_no_programs,
            )
            yield site, platform
        finally:
            loop.finish()
            for process in site.processes.started:
                process.forget()
            asyncio.set_event_loop(None)


def _no_programs(path: Path, _asked: bool = True) -> Program:
    raise UserError(f"a simulation runs no real programs, and so not {path}: leave out --simulate")


def _is_compared(cell: Cell) -> bool:
    """Records are needed for comparisons only: the log's hash does not need one."""
    return bool(cell.scenario.baseline)


def _never(_cell: Cell) -> bool:
    return False


def _seconds(site: Site) -> dict[str, float]:
    """Seconds of CPU by component, empty if they were not measured."""
    seconds: dict[str, float] = {}
    for process in site.processes.started:
        seconds[process.name] = seconds.get(process.name, 0.0) + process.seconds
    return seconds


def digest(*logs: MemoryRecords) -> str:
    """Hashes all writes and the time lines, to the byte."""
    found = hashlib.sha256()
    for records in logs:
        for event in records.events:  # the value before it is an earlier one's
            about = (event.revision, event.verb, event.key, event.uid, event.previous, event.created)
            found.update(repr((*about, event.author, event.time, len(event.value))).encode())
            found.update(event.value)
        for moment in records.timeline:
            found.update(repr(moment).encode())
    return found.hexdigest()


def _runtime_dirs() -> Callable[[], str]:
    """Each cluster's sockets get a directory, with the shortest names there are."""
    made: list[str] = []

    def make() -> str:
        path = _SOCKETS if not made else Path(f"{_SOCKETS}{len(made)}")
        path.mkdir(mode=0o700, exist_ok=True)
        made.append(str(path))
        return made[-1]

    return make


def new_directory() -> str:
    return tempfile.mkdtemp(prefix="kubeskew-", dir=_MEMORY if _MEMORY.is_dir() else None)


@contextmanager
def _own_directory() -> Iterator[None]:
    """An empty directory is the working one, so that the paths of all simulations are alike."""
    before = Path.cwd()
    made = new_directory()
    os.chdir(made)
    try:
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def process_logs(*others: logging.Handler) -> Iterator[None]:
    """Each process logs to its own file; `others` get lines from outside of processes."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers
    root.handlers, root.level = [ProcessLogs(others)], logging.INFO
    try:
        yield
    finally:
        root.handlers, root.level = handlers, level


@dataclass(frozen=True, slots=True)
class SimulatedCells:
    """Runs cells that begin with the same cluster in simulations."""

    seed: int

    def __call__(self, job: Sequence[Cell], on_moment: OnCellMoment) -> list[CellResult]:
        alike = simulate_alike(job, self.seed, lambda cell, moment: on_moment(cell.name, moment))
        return [simulated.result for simulated in alike]


def processes_of_machine(jobs: int) -> Pool:
    """One job runs in this process."""
    return ForkedPool(jobs) if jobs > 1 else HerePool()


def simulate_cells(
    cells: Sequence[Cell], seed: int, audience: Audience, pool: Pool, done: list[CellResult]
) -> list[CellResult]:
    """Workers of a pool run the cells; results come in the cells' order. If the run is interrupted, `done`
    has the results so far."""
    found = deal_cells(with_same_cluster(cells), pool, SimulatedCells(seed), audience, done)
    by_name = {result.name: result for result in found}
    return [by_name[cell.name] for cell in cells]

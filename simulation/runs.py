"""Runs of cells in simulations: one cell, or the cells of a matrix, those with the same cluster together.

A cluster that several cells have is started once. A trace notes what a run does, and where another run
differs. The garbage collector is spared what was there before a simulation.
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
from kubeskew.cluster.platform import Platform
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.dealing.cells import deal_cells
from kubeskew.conformance.dealing.forked import ForkedPool, HerePool
from kubeskew.conformance.dealing.frozen_objects import frozen
from kubeskew.conformance.dealing.workers import Hear, Pool
from kubeskew.conformance.matrix import with_same_cluster
from kubeskew.conformance.matrix_runs import Audience
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import RUN, Moment, Tell, noting, run_cell
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
    """Leaves the collection of garbage to the loop, which does it after so many callbacks.

    An asynchronous generator that is collected is closed by a task. So when garbage is collected decides what
    runs when, and it must not depend on what else the interpreter has done. What the simulation has left is
    collected when it has ended, so that the next one hears nothing of it.
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
    """Notes every callback: its virtual time, its process, its code. Against an earlier trace it compares as
    it goes, and keeps the first difference."""

    def __init__(self, before: "Trace | None" = None) -> None:
        self.steps: list[str] = []
        self.difference = ""
        self._before: Sequence[str] | None = before.steps if before is not None else None

    def note(self, time: float, process: Process | None, handle: Any) -> None:
        """Notes a callback that is about to run."""
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
    """Returns the name of a callback; of a task's step, that of its coroutine and its own."""
    task: Any = getattr(callback, "__self__", None)
    if not hasattr(task, "get_coro"):
        return str(getattr(callback, "__qualname__", type(callback).__name__))
    work = task.get_coro()
    name = str(getattr(work, "__qualname__", type(work).__name__))
    given = task.get_name()
    return name if given.startswith(_NAMELESS) else f"{name} ({given})"


@dataclass(slots=True)
class Simulated:
    """The result of one simulation: the cell's own, and what identifies the run."""

    result: CellResult
    seed: int
    log_hash: str
    virtual_seconds: float
    requests: int
    failures: list[str] = field(default_factory=list)  # of tasks that nobody awaited
    seconds: dict[str, float] = field(default_factory=dict)  # of CPU, by component
    played: Played | None = None  # what came of the plan, if there was one


class Course(Protocol):
    """Decides what a simulation does when its cluster has started, and hears how it has ended.

    A process that is forked then has a course of its own.
    """

    def part(self, cell: Cell) -> Cell:
        """Returns the cell whose steps are run."""
        ...

    def finish(self, simulated: Simulated) -> None:
        """Hears what came of it. Does not return in a process that has nothing else to do."""
        ...


@dataclass(slots=True)
class FaultyRun:
    """A run with faults: its plan, the seed of all that is drawn when the cluster has started, and how many
    of the scenario's first steps are run, if not all. It is broken off, with BrokenOffError, when `over` says
    so."""

    plan: Plan
    seed: int
    steps: int | None = None
    over: Callable[[], bool] | None = None


class FaultyCourse(Course, Protocol):
    """A course with faults."""

    def choose(self) -> FaultyRun:
        """Returns the run that goes on, when the cluster has started."""
        ...


class _Alone:
    """The course of a simulation in which one cell is run without faults."""

    def part(self, cell: Cell) -> Cell:
        return cell

    def finish(self, simulated: Simulated) -> None:
        """Does nothing: who has begun gets it."""


class _AloneWithFaults(_Alone):
    """The course of a simulation in which one plan is played."""

    def __init__(self, run: FaultyRun) -> None:
        self._run = run

    def choose(self) -> FaultyRun:
        return self._run

    def part(self, cell: Cell) -> Cell:
        return with_steps(cell, self._run.steps)


def with_steps(cell: Cell, steps: int | None) -> Cell:
    """Returns the cell with so many of its first steps only."""
    if steps is None:
        return cell
    return replace(cell, scenario=replace(cell.scenario, parts=tuple(cell.steps()[:steps])))


def simulate(
    cell: Cell, seed: int, tell: Tell, *, measures: bool = False, trace: Trace | None = None
) -> Simulated:
    """Runs a cell on a cluster of its own, and returns when it has ended. `trace` hears of all that is
    done."""
    with collecting_in_turns():
        return _simulate(cell, seed, tell, _Alone(), None, trace=trace, measures=measures)


def simulate_with_faults(cell: Cell, run: FaultyRun, tell: Tell, *, trace: Trace | None = None) -> Simulated:
    """Runs a cell on a cluster of its own; the faults of a plan, be it an empty one, are played and healed,
    and the run is judged by the invariants."""
    return simulate_faulty_course(cell, _AloneWithFaults(run), tell, trace=trace)


def simulate_faulty_course(
    cell: Cell, course: FaultyCourse, tell: Tell = lambda _: None, *, trace: Trace | None = None
) -> Simulated:
    """Starts the cluster of a cell, the same one for all plans and seeds, and goes on as the course says."""
    with collecting_in_turns():
        return _simulate(cell, _BEGINNING_SEED, tell, course, course.choose, trace=trace)


def simulate_alike(cells: Sequence[Cell], seed: int, hear: Callable[[Cell, Moment], None]) -> list[Simulated]:
    """Runs cells with the same cluster, which is started once. Each does and writes what it does alone.

    Raises BranchError if one has not come to its end.
    """
    branches: Branches[Simulated] = Branches(cells, new_directory)
    with collecting_in_turns():
        try:
            last = _simulate(cells[0], seed, lambda moment: hear(branches.cell, moment), branches, None)
        except BaseException:
            branches.forks.fail()
            raise
    return [*(branches.results[cell.name] for cell in cells[:-1]), last]


def _simulate(
    cell: Cell,
    seed: int,
    tell: Tell,
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
        control, run, faulty = LocalControl(STATE, platform, noting(tell)), RUN, None
        if choose is not None:
            control = faulty = FaultyControl(
                STATE, platform, noting(tell), _chosen(choose, site, loop), site, loop
            )
            run = under_faults(RUN, faulty, cell.expected_failures())
        is_recorded = _is_compared if faulty is None else _never
        work = run_cell(cell, control, site.clock, tell, run, course.part, is_recorded)
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
    """Returns what gives the plan of the run that is chosen, and has all go on as that says."""

    def plan() -> Plan:
        run = choose()
        loop.over = run.over
        site.streams.go_on_with(run.seed)
        return run.plan

    return plan


@contextmanager
def running_site(loop: SimulatedLoop, seed: int, servers: int = 1) -> Iterator[tuple[Site, Platform]]:
    """Gives what clusters of so many API servers run on in a loop, and ends the loop.

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
            )
            yield site, platform
        finally:
            loop.finish()
            for process in site.processes.started:
                process.forget()
            asyncio.set_event_loop(None)


def _is_compared(cell: Cell) -> bool:
    """Decides whether a cell's record is held against another's. Its log's hash does not need one."""
    return bool(cell.scenario.baseline)


def _never(_cell: Cell) -> bool:
    return False


def _seconds(site: Site) -> dict[str, float]:
    """Returns the seconds of CPU that components took, if they were measured."""
    seconds: dict[str, float] = {}
    for process in site.processes.started:
        seconds[process.name] = seconds.get(process.name, 0.0) + process.seconds
    return seconds


def digest(*logs: MemoryRecords) -> str:
    """Returns the hash of all that was written and of the time lines, to the byte."""
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
    """Returns what makes a directory for the sockets of each cluster, with the shortest names there are."""
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
    """Makes an empty directory the working one, so that the paths of all simulations are alike."""
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
    """Has each process log to its own file; `others` get what is logged outside of them."""
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

    def __call__(self, job: Sequence[Cell], hear: Hear) -> list[CellResult]:
        """Returns the results of the cells."""
        alike = simulate_alike(job, self.seed, lambda cell, moment: hear(cell.name, moment))
        return [simulated.result for simulated in alike]


def processes_of_machine(jobs: int) -> Pool:
    """Returns what runs so many simulations at a time; one alone in this process."""
    return ForkedPool(jobs) if jobs > 1 else HerePool()


def simulate_cells(
    cells: Sequence[Cell], seed: int, audience: Audience, pool: Pool, done: list[CellResult]
) -> list[CellResult]:
    """Runs cells by the workers of a pool; results in the cells' order. Those that are ready are in `done`,
    too, if the run is interrupted."""
    found = deal_cells(with_same_cluster(cells), pool, SimulatedCells(seed), audience, done)
    by_name = {result.name: result for result in found}
    return [by_name[cell.name] for cell in cells]

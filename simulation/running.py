"""Runs a cell of a scenario in a simulation."""

import asyncio
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubeskew.apiserver.storage.memory_log import MemoryRecords
from kubeskew.cluster.platform import Platform
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import RUN, Moment, Tell, noting, run_cell
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.branching import Branches
from kubeskew.simulation.collecting import collecting_in_turns
from kubeskew.simulation.faults.control import FaultyControl
from kubeskew.simulation.faults.performing import under_faults
from kubeskew.simulation.faults.plan import Kind, Plan
from kubeskew.simulation.faults.played import Played
from kubeskew.simulation.loop import SimulatedLoop, process_of
from kubeskew.simulation.machine import Site
from kubeskew.simulation.ports import CountedPorts, write_repeatable_credentials
from kubeskew.simulation.probing import ProbeTransport
from kubeskew.simulation.processes import ProcessLogs
from kubeskew.simulation.supervision import Supervisor
from kubeskew.simulation.tracing import Trace

STATE, _SOCKETS = Path("state"), Path("run")
_MEMORY = Path("/dev/shm")  # noqa: S108 - files of a simulation need no disk


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


def simulate(
    cell: Cell,
    seed: int,
    tell: Tell,
    *,
    plan: Plan | None = None,
    measures: bool = False,
    trace: Trace | None = None,
) -> Simulated:
    """Runs a cell on a cluster of its own, and returns when it has ended.

    With a plan, be it an empty one, its faults are played and healed, and the run is judged by the
    invariants. `trace` hears of all that is done.
    """
    with collecting_in_turns():
        return _simulate(cell, seed, tell, plan, trace, None, measures=measures)


def simulate_alike(cells: Sequence[Cell], seed: int, hear: Callable[[Cell, Moment], None]) -> list[Simulated]:
    """Runs cells with the same cluster, which is started once. Each does and writes what it does alone.

    Raises BranchError if one has not come to its end.
    """
    branches: Branches[Simulated] = Branches(cells, _new_directory)
    with collecting_in_turns():
        try:
            last = _simulate(
                *(cells[0], seed, lambda moment: hear(branches.cell, moment), None, None, branches),
                measures=False,
            )
        except BaseException:
            branches.fail()
            raise
    return [*(branches.results[cell.name] for cell in cells[:-1]), last]


def _simulate(
    cell: Cell,
    seed: int,
    tell: Tell,
    plan: Plan | None,
    trace: Trace | None,
    branches: Branches[Simulated] | None,
    *,
    measures: bool,
) -> Simulated:
    loop = SimulatedLoop()
    loop.measures = measures
    if trace is not None:
        loop.observe = lambda handle: trace.note(loop.time(), process_of(handle), handle)
    supervisor = Supervisor(_times_down(plan)) if plan is not None else None
    servers = int((cell.cluster() or {}).get("ha", 1))
    with process_logs(), running_site(loop, seed, servers, supervisor) as (site, platform):
        control, run, played = LocalControl(STATE, platform, noting(tell)), RUN, None
        if plan is not None:
            control = faulty = FaultyControl(STATE, platform, noting(tell), plan, site, loop)
            run, played = under_faults(RUN, faulty), faulty.played
        part = branches.part if branches is not None else _itself
        is_recorded = _is_compared if plan is None else _never
        work = run_cell(cell, control, site.clock, tell, run, part, is_recorded)
        result = loop.run_until_complete(work)
        result.seed, result.log_hash = seed, digest(*site.storage.all())
        simulated = Simulated(
            *(result, seed, result.log_hash, loop.time(), site.network.requests, [*loop.failures]),
            seconds=_seconds(site),
            played=played,
        )
        if branches is not None:
            branches.finish(simulated)
        return simulated


@contextmanager
def running_site(
    loop: SimulatedLoop, seed: int, servers: int = 1, supervisor: Supervisor | None = None
) -> Iterator[tuple[Site, Platform]]:
    """Gives what clusters of so many API servers run on in a loop, and ends the loop.

    The working directory is another until then.
    """
    with _own_directory():
        asyncio.set_event_loop(loop)
        try:
            site = Site(seed, servers=servers, supervisor=supervisor)
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
            asyncio.set_event_loop(None)


def _itself(cell: Cell) -> Cell:
    return cell


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


def _times_down(plan: Plan) -> dict[str, float | None]:
    """Returns by fault for how long what it kills stays down; None where it does until all is healed."""
    killing = [fault for fault in plan.faults if fault.kind in (Kind.CRASH, Kind.KILL)]
    return {each.name: each.seconds("back") if "back" in each.parameters else None for each in killing}


def digest(*logs: MemoryRecords) -> str:
    """Returns the hash of all that was written and of the time lines, to the byte."""
    found = hashlib.sha256()
    for records in logs:
        for event in records.events:
            found.update(repr(event).encode())
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


def _new_directory() -> str:
    return tempfile.mkdtemp(prefix="kubeskew-", dir=_MEMORY if _MEMORY.is_dir() else None)


@contextmanager
def _own_directory() -> Iterator[None]:
    """Makes an empty directory the working one, so that the paths of all simulations are alike."""
    before = Path.cwd()
    made = _new_directory()
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

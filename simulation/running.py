"""Runs a cell of a scenario in a simulation."""

import asyncio
import gc
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubeskew.apiserver.storage.memory_log import MemoryRecords
from kubeskew.cluster.platform import Platform
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import RUN, run_cell
from kubeskew.conformance.scenario import Cell
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

_STATE, _SOCKETS = Path("state"), Path("run")
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
    progress: Callable[[str], None],
    *,
    plan: Plan | None = None,
    measures: bool = False,
    trace: Trace | None = None,
) -> Simulated:
    """Runs a cell on a cluster of its own, and returns when it has ended.

    With a plan, be it an empty one, its faults are played and healed, and the run is judged by the
    invariants. `trace` hears of all that is done.
    """
    loop = SimulatedLoop()
    loop.measures = measures
    if trace is not None:
        loop.observe = lambda handle: trace.note(loop.time(), process_of(handle), handle)
    with _own_directory(), _process_logs(), _collecting_in_turns():
        asyncio.set_event_loop(loop)
        try:
            supervisor = Supervisor(_times_down(plan)) if plan is not None else None
            servers = int((cell.cluster() or {}).get("ha", 1))
            site = Site(seed, servers=servers, supervisor=supervisor)
            platform = Platform(
                clock=site.clock,
                processes=site.processes,
                connect=lambda directory: ProbeTransport(site.network, directory),
                storage=site.storage,
                ports=CountedPorts,
                credentials=write_repeatable_credentials,
                dial=site.dial,
                new_runtime_dir=_new_runtime_dir,
            )
            control, run, played = LocalControl(_STATE, platform, progress), RUN, None
            if plan is not None:
                control = faulty = FaultyControl(_STATE, platform, progress, plan, site, loop)
                run, played = under_faults(RUN, faulty), faulty.played
            result = loop.run_until_complete(run_cell(cell, control, site.clock, progress, run))
            result.log_hash, failures = digest(site.storage.only()), [*loop.failures]
            virtual_seconds = loop.time()
        finally:
            loop.finish()
            asyncio.set_event_loop(None)
    result.seed = seed
    seconds: dict[str, float] = {}
    for process in site.processes.started:
        seconds[process.name] = seconds.get(process.name, 0.0) + process.seconds
    return Simulated(
        *(result, seed, result.log_hash, virtual_seconds, site.network.requests, failures, seconds, played)
    )


def _times_down(plan: Plan) -> dict[str, float | None]:
    """Returns by fault for how long what it kills stays down; None where it does until all is healed."""
    killing = [fault for fault in plan.faults if fault.kind in (Kind.CRASH, Kind.KILL)]
    return {each.name: each.seconds("back") if "back" in each.parameters else None for each in killing}


def digest(records: MemoryRecords) -> str:
    """Returns the hash of all that was written and of the time line, to the byte."""
    found = hashlib.sha256()
    for event in records.events:
        found.update(repr(event).encode())
    for moment in records.timeline:
        found.update(repr(moment).encode())
    return found.hexdigest()


def _new_runtime_dir() -> str:
    _SOCKETS.mkdir(mode=0o700, exist_ok=True)
    return str(_SOCKETS)


@contextmanager
def _own_directory() -> Iterator[None]:
    """Makes an empty directory the working one, so that the paths of all simulations are alike."""
    before = Path.cwd()
    made = tempfile.mkdtemp(prefix="kubeskew-", dir=_MEMORY if _MEMORY.is_dir() else None)
    os.chdir(made)
    try:
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _collecting_in_turns() -> Iterator[None]:
    """Leaves the collection of garbage to the loop, which does it after so many callbacks.

    An asynchronous generator that is collected is closed by a task. So when garbage is collected decides what
    runs when, and it must not depend on what else the interpreter has done.
    """
    enabled = gc.isenabled()
    gc.collect()  # what the simulation before has left
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _process_logs() -> Iterator[None]:
    """Has each process log to its own file."""
    root, handler = logging.getLogger(), ProcessLogs()
    level, handlers = root.level, root.handlers
    root.handlers, root.level = [handler], logging.INFO
    try:
        yield
    finally:
        root.handlers, root.level = handlers, level

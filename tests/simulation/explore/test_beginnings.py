"""Runs that share the start of their cluster are those that each would be alone."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from kubeskew.apimachinery.clock import deadline
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.explore.beginnings import Beginnings
from kubeskew.simulation.explore.selection import cells_named
from kubeskew.simulation.faults.plan import plan_of
from kubeskew.simulation.forks import BranchError
from kubeskew.simulation.loop import BrokenOffError
from kubeskew.simulation.runs import FaultyRun, Simulated, simulate_with_faults

DATA = Path(__file__).parents[2] / "data"
CRASH = {"id": "crash", "component": "scheduler", "verb": "create", "nth": 1, "crash": "after", "back": "1s"}
ORDER = {"id": "order", "order": "processes"}


@pytest.fixture(scope="module")
def cell() -> Cell:
    """The cell of one pod with a device."""
    (found,) = cells_named([str(DATA / "simulated-pod.yaml")], {})
    return found


def faulty(seed: int, *faults: dict[str, Any], steps: int | None = None) -> FaultyRun:
    return FaultyRun(plan_of({"seed": seed, "faults": [*faults]}), seed, steps)


def evidence(ran: Simulated) -> tuple[object, ...]:
    """Returns what a run comes to."""
    assert ran.played is not None
    fired = dict(ran.played.fired)
    return ran.log_hash, ran.seed, ran.virtual_seconds, ran.failures, fired, len(ran.result.steps)


def process(_ran: Simulated) -> int:
    return os.getpid()


def end_process(_ran: Simulated) -> None:
    os._exit(7)


def test_runs_are_the_same_as_alone(cell: Cell):
    """Other faults, other seeds, fewer steps, and the first run again: each as in a cluster of its own."""
    runs = [faulty(0, CRASH), faulty(2, CRASH, ORDER), faulty(3, steps=1), faulty(0, CRASH)]
    beginnings = Beginnings()
    shared = [beginnings.run(cell, run, evidence) for run in runs]
    beginnings.end()
    assert shared == [evidence(simulate_with_faults(cell, run, lambda _: None)) for run in runs]
    assert len({found[0] for found in shared}) == 3


def test_the_first_run_of_a_cell_is_done_here(cell: Cell):
    """The first run of a cell fills the caches of this process; each of those that follow has its own."""
    beginnings = Beginnings()
    processes = [beginnings.run(cell, faulty(0), process) for _ in range(3)]
    beginnings.end()
    assert processes[0] == os.getpid()
    assert len({*processes}) == 3


def test_a_run_that_ends_its_process_takes_no_other_with_it(cell: Cell):
    """It is an error that says how it ended; the cluster is still there for the next run."""
    beginnings = Beginnings()
    first = beginnings.run(cell, faulty(1), evidence)
    with pytest.raises(BranchError, match="its process ended by itself with status 7"):
        beginnings.run(cell, faulty(1), end_process)
    assert beginnings.run(cell, faulty(1), evidence) == first
    beginnings.end()


def test_a_run_is_broken_off_when_its_time_is_over(cell: Cell):
    """Here and in a process of its own, whoever asked for it learns the same."""
    beginnings = Beginnings()
    over = replace(faulty(1), over=deadline(0))
    for _ in range(2):
        with pytest.raises(BrokenOffError):
            beginnings.run(cell, over, evidence)
    beginnings.end()


def test_a_cluster_that_does_not_start_is_reported_every_time(cell: Cell, monkeypatch: pytest.MonkeyPatch):
    """Its runs all have the error with which the start has failed."""
    monkeypatch.setattr("kubeskew.simulation.runs.LocalControl.start", _refuse)
    beginnings = Beginnings()
    errors = [beginnings.run(cell, faulty(seed), _error) for seed in range(3)]
    beginnings.end()
    assert errors == ["no such cluster"] * 3


async def _refuse(*_: object) -> None:
    raise ValueError("no such cluster")


def _error(ran: Simulated) -> str:
    return ran.result.error


def _wait_for_ever(path: str, _ran: Simulated) -> None:
    Path(path).write_text(f"{os.getpid()} {os.getppid()}")
    signal.pause()


def test_started_clusters_end_with_whoever_started_them(cell: Cell, tmp_path: Path):
    """A process that is killed takes the one with the cluster with it, and the one of the run."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    reading, writing = Pipe(duplex=False)  # ends when the last process ends that has it
    if not (pid := os.fork()):
        _run_and_exit(cell, partial(_wait_for_ever, str(begun)))
    writing.close()
    assert len(begun.read_text().split()) == 2
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with pytest.raises(EOFError):
        reading.recv()


def _run_and_exit(cell: Cell, report: Callable[[Simulated], None]) -> None:
    try:
        beginnings = Beginnings()
        beginnings.run(cell, faulty(0), process)
        beginnings.run(cell, faulty(0), report)
    finally:
        os._exit(1)

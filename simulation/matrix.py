"""Runs the cells of a matrix in simulations, each in a process forked for it where there are several jobs."""

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack

from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resuming import digest_of
from kubeskew.conformance.running import compare, note_end
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.running import simulate

Announce = Callable[[str], None]


def simulate_cells(
    cells: Sequence[Cell], seed: int, announce: Announce, jobs: int, done: list[CellResult]
) -> list[CellResult]:
    """Runs cells, at most `jobs` at a time; results in the cells' order. Those that are ready are in `done`,
    too, if the run is interrupted."""
    results = []
    with ExitStack() as stack:
        for cell, result in zip(cells, _results(cells, seed, announce, jobs, stack), strict=True):

            def progress(text: str, cell: Cell = cell) -> None:
                announce(f"{cell.name}: {text}")

            note_end(result, digest_of(cell.scenario), progress)
            results.append(result)
            done.append(result)
    compare(results)
    return results


def _results(
    cells: Sequence[Cell], seed: int, announce: Announce, jobs: int, stack: ExitStack
) -> Iterator[CellResult]:
    gc.collect()
    gc.freeze()  # what has been imported is the same in all of them
    stack.callback(gc.unfreeze)
    if min(jobs, len(cells)) < 2:
        for cell in cells:
            yield _simulate(cell, seed, announce)
        return
    fork = multiprocessing.get_context("fork")
    pool = stack.enter_context(ProcessPoolExecutor(min(jobs, len(cells)), fork))
    stack.callback(pool.shutdown, cancel_futures=True)
    running = [pool.submit(_simulate, cell, seed, announce) for cell in cells]
    for future in running:
        yield future.result()


def _simulate(cell: Cell, seed: int, announce: Announce) -> CellResult:
    def progress(text: str) -> None:
        announce(f"{cell.name}: {text}")

    return simulate(cell, seed, progress).result

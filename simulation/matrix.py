"""Runs the cells of a matrix in simulations: those with the same cluster together, which is started once."""

import gc
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack

from kubeskew.conformance.matrix import with_same_cluster
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resuming import digest_of
from kubeskew.conformance.running import Audience, compare, note_end
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.collecting import frozen
from kubeskew.simulation.running import simulate_alike


def simulate_cells(
    cells: Sequence[Cell], seed: int, audience: Audience, jobs: int, done: list[CellResult]
) -> list[CellResult]:
    """Runs cells, in at most `jobs` processes at a time; results in the cells' order. Those that are ready
    are in `done`, too, if the run is interrupted."""
    by_name = {cell.name: cell for cell in cells}
    results: dict[str, CellResult] = {}
    with ExitStack() as stack:
        for result in _results(cells, seed, audience, jobs, stack):
            note_end(result, digest_of(by_name[result.name].scenario), audience)
            results[result.name] = result
            done.append(result)
    ordered = [results[name] for name in by_name]
    compare(ordered)
    return ordered


def _results(
    cells: Sequence[Cell], seed: int, audience: Audience, jobs: int, stack: ExitStack
) -> Iterator[CellResult]:
    """Yields results as they become ready."""
    groups = with_same_cluster(cells)
    gc.collect()
    stack.enter_context(frozen())  # what has been imported is the same in all of them
    if min(jobs, len(groups)) < 2:
        for group in groups:
            yield from _simulate(group, seed, audience)
        return
    fork = multiprocessing.get_context("fork")
    pool = stack.enter_context(ProcessPoolExecutor(min(jobs, len(groups)), fork, gc.disable))
    stack.callback(pool.shutdown, cancel_futures=True)
    groups.sort(key=len, reverse=True)  # so that no process is left with a large one in the end
    for future in as_completed([pool.submit(_simulate, group, seed, audience) for group in groups]):
        yield from future.result()


def _simulate(cells: Sequence[Cell], seed: int, audience: Audience) -> list[CellResult]:
    return [simulated.result for simulated in simulate_alike(cells, seed, audience.hear)]

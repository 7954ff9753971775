"""Runs the cells of a matrix one after another or side by side."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from kubeskew.apimachinery.clock import Clock
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.evidence.comparison import diverged
from kubeskew.conformance.results import CellResult, StepResult
from kubeskew.conformance.resumption import digest_of
from kubeskew.conformance.runner import Moment, noting, run_cell
from kubeskew.conformance.scenario import NAMESPACE, Cell

# How outcomes are told to people.
OUTCOMES = {"passed": "passed", "expected": "fails as upstream", "failed": "FAILED", "notRun": "not run"}


class Audience(Protocol):
    """Hears of cells while they run, to show it.

    Simulated cells run in processes forked from the first one and tell from there; ends are all told in the
    first one. So what is heard of a cell must not rest on what another process has heard.
    """

    def hear(self, cell: Cell, moment: Moment) -> None:
        """Hears what a cell does."""
        ...

    def ended(self, result: CellResult) -> None:
        """Hears how a cell ended."""
        ...

    def say(self, text: str) -> None:
        """Hears what happens to whoever runs cells."""
        ...


async def run_cells(
    cells: Sequence[Cell],
    control_for: Callable[[Cell, Callable[[str], None]], ClusterControl],
    clock: Clock,
    audience: Audience,
    jobs: int = 1,
    done: list[CellResult] | None = None,
) -> list[CellResult]:
    """Run cells, at most `jobs` at a time, each on a cluster of its own; results in the cells' order.

    Those that are ready are in `done`, too, if the run is interrupted.
    """
    free = asyncio.Semaphore(jobs)

    async def run(cell: Cell) -> CellResult:
        async with free:

            def tell(moment: Moment) -> None:
                audience.hear(cell, moment)

            digest = digest_of(cell.scenario)
            result = await run_cell(cell, control_for(cell, noting(tell)), clock, tell)
            note_end(result, digest, audience)
            if done is not None:
                done.append(result)
            return result

    async with asyncio.TaskGroup() as group:  # if interrupted, it waits until every cell's cluster is down
        tasks = [group.create_task(run(cell)) for cell in cells]
    results = [task.result() for task in tasks]
    compare(results)
    return results


def on_one_cluster(cells: Sequence[Cell], jobs: int) -> int:
    """Returns how many cells one cluster takes at a time: one, if two share a namespace or one runs alone."""
    namespaces = [cell.bindings()[NAMESPACE] for cell in cells]
    alone = any(not cell.scenario.concurrent for cell in cells)
    return 1 if alone or len({*namespaces}) < len(namespaces) else jobs


def note_end(result: CellResult, digest: str, audience: Audience) -> None:
    """Tells how a cell ended, and notes what it came from if it was run to its end."""
    result.digest = "" if result.error else digest
    audience.ended(result)


def interrupted(cells: Sequence[Cell], done: Sequence[CellResult]) -> list[CellResult]:
    """Results of all cells of a run that was interrupted: of those that were not ready, no step was run."""
    by_name = {result.name: result for result in done}
    results = [by_name.get(cell.name) or _not_run(cell) for cell in cells]
    compare(results)
    return results


def _not_run(cell: Cell) -> CellResult:
    steps = [StepResult(step.name, not_run="the run was interrupted") for step in cell.steps()]
    return CellResult(cell.name, cell.scenario.name, cell.parameters, steps)


def compare(results: Sequence[CellResult]) -> None:
    """Say of every cell that has a baseline where it parted from it."""
    by_name = {result.name: result for result in results}
    for result in results:
        other = by_name.get(result.baseline or "")
        if other and other.record and other.record.states and result.record and result.record.states:
            steps = [step.name for step in result.steps if not step.not_run]
            result.divergence = diverged(result.record, other.record, other.name, steps)

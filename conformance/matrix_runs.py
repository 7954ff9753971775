"""Runs the cells of a matrix one after another or side by side."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from kubeskew.apimachinery.clock import Clock
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.evidence.comparison import diverged
from kubeskew.conformance.results import CellResult, StepResult
from kubeskew.conformance.resumption import digest_of
from kubeskew.conformance.runner import Moment, progress_of, run_cell
from kubeskew.conformance.scenario import NAMESPACE, Cell
from kubeskew.conformance.side_by_side import side_by_side

# Words for outcomes, in texts for people.
OUTCOMES = {"passed": "passed", "expected": "fails as upstream", "failed": "FAILED", "notRun": "not run"}


class Audience(Protocol):
    """Receives progress of cells, to show it.

    Simulated cells run in processes forked from the first one and call `on_moment` there; `ended` is always
    called in the first process. So the reaction to one cell must not rest on calls in another process.
    """

    def on_moment(self, cell: Cell, moment: Moment) -> None: ...

    def ended(self, result: CellResult) -> None: ...

    def say(self, text: str) -> None: ...


async def run_cells(
    cells: Sequence[Cell],
    control_for: Callable[[Cell, Callable[[str], None]], ClusterControl],
    clock: Clock,
    audience: Audience,
    jobs: int = 1,
    done: list[CellResult] | None = None,
) -> list[CellResult]:
    """Runs at most `jobs` cells at a time, each on a cluster of its own; results come in the cells' order.

    A cell that is to be run both ways is run with real programs first, then emulated.

    If the run is interrupted, `done` has the results so far.
    """
    free = asyncio.Semaphore(jobs)

    async def run(cell: Cell) -> CellResult:
        async with free:

            def report(moment: Moment) -> None:
                audience.on_moment(cell, moment)

            def report_emulated(moment: Moment) -> None:
                audience.on_moment(cell, replace(moment, text=f"emulated: {moment.text}"))

            digest, emulated = digest_of(cell.scenario), cell.emulated()
            result = await run_cell(cell, control_for(cell, progress_of(report)), clock, report)
            if emulated is not None:
                control = control_for(emulated, progress_of(report_emulated))
                other = await run_cell(emulated, control, clock, report_emulated)
                result.side_by_side = side_by_side(result, other)
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
    """One cluster takes one cell at a time if two share a namespace or one must run alone."""
    namespaces = [cell.bindings()[NAMESPACE] for cell in cells]
    alone = any(not cell.scenario.concurrent for cell in cells)
    return 1 if alone or len({*namespaces}) < len(namespaces) else jobs


def note_end(result: CellResult, digest: str, audience: Audience) -> None:
    """Reports the end of a cell, and keeps the digest of its sources if it was run to its end."""
    result.digest = "" if result.error else digest
    audience.ended(result)


def interrupted(cells: Sequence[Cell], done: Sequence[CellResult]) -> list[CellResult]:
    """Cells that were not ready get a result without a step that was run."""
    by_name = {result.name: result for result in done}
    results = [by_name.get(cell.name) or _not_run(cell) for cell in cells]
    compare(results)
    return results


def _not_run(cell: Cell) -> CellResult:
    steps = [StepResult(step.name, not_run="the run was interrupted") for step in cell.steps()]
    return CellResult(cell.name, cell.scenario.name, cell.parameters, steps)


def compare(results: Sequence[CellResult]) -> None:
    """Each cell that has a baseline gets the step at which it parted from it."""
    by_name = {result.name: result for result in results}
    for result in results:
        other = by_name.get(result.baseline or "")
        if other and other.record and other.record.states and result.record and result.record.states:
            steps = [step.name for step in result.steps if not step.not_run]
            result.divergence = diverged(result.record, other.record, other.name, steps)

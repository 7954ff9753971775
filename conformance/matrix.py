"""The matrix: which cells a run has, and running them one after another or side by side."""

import asyncio
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

from kubeskew.apimachinery.clock import Clock
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.divergence import diverged
from kubeskew.conformance.loading import load
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import run_cell
from kubeskew.conformance.scenario import Cell, Scenario

# Which cells a profile runs, by name.
PROFILES = {
    "quick": ("kep-5004/upgrade-downgrade/*/1.35-1.36-1.35",),
    "full": ("*",),
}

# How outcomes are told to people.
OUTCOMES = {"passed": "passed", "expected": "fails as upstream", "failed": "FAILED", "notRun": "not run"}

Announce = Callable[[str], None]


def bundled() -> dict[str, Path]:
    """The scenarios that come with the project: name → file."""
    root = Path(str(resources.files("kubeskew.conformance").joinpath("scenarios")))
    return {str(path.relative_to(root).with_suffix("")): path for path in sorted(root.rglob("*.yaml"))}


def find(name: str) -> Scenario:
    """A scenario by its name or its file. Raises ScenarioError that lists what there is."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return load(path)
    known = bundled()
    if name not in known:
        raise ScenarioError(f"there is no scenario {name}; there are: {', '.join(known)} (or name a file)")
    return load(known[name])


def cells_of(profile: str, only: str = "*") -> list[Cell]:
    """The cells of a profile whose names match `only`, a pattern as of a shell."""
    patterns = PROFILES[profile]
    cells = (cell for path in bundled().values() for cell in load(path).cells())
    return [
        cell
        for cell in cells
        if fnmatchcase(cell.name, only) and any(fnmatchcase(cell.name, pattern) for pattern in patterns)
    ]


async def run_cells(
    cells: Sequence[Cell],
    control_for: Callable[[Cell, Callable[[str], None]], ClusterControl],
    clock: Clock,
    announce: Announce,
    jobs: int = 1,
) -> list[CellResult]:
    """Run cells, at most `jobs` at a time, each on a cluster of its own; results in the cells' order."""
    free = asyncio.Semaphore(jobs)

    async def run(cell: Cell) -> CellResult:
        async with free:

            def progress(text: str) -> None:
                announce(f"{cell.name}: {text}")

            result = await run_cell(cell, control_for(cell, progress), clock, progress)
            progress(f"{OUTCOMES[result.outcome]} in {result.seconds:.1f} s")
            return result

    async with asyncio.TaskGroup() as group:  # if interrupted, it waits until every cell's cluster is down
        tasks = [group.create_task(run(cell)) for cell in cells]
    results = [task.result() for task in tasks]
    _compare(results)
    return results


def _compare(results: Sequence[CellResult]) -> None:
    """Say of every cell that has a baseline where it parted from it."""
    by_name = {result.name: result for result in results}
    for result in results:
        other = by_name.get(result.baseline or "")
        if other and other.record and result.record:
            steps = [step.name for step in result.steps if not step.not_run]
            result.divergence = diverged(result.record, other.record, other.name, steps)

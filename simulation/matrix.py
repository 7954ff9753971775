"""Runs the cells of a matrix in simulations: those with the same cluster together, which is started once."""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeskew.conformance.dealing.cells import deal_cells
from kubeskew.conformance.dealing.forked import ForkedPool, HerePool
from kubeskew.conformance.dealing.workers import Hear, Pool
from kubeskew.conformance.matrix import with_same_cluster
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.running import Audience
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.running import simulate_alike


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

"""Has the cells that begin with the same cluster go on from one simulation, each in a process of its own."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.forking import BranchError, Forks

R = TypeVar("R")


class Branches(Generic[R]):
    """The cells that begin alike, and what came of those that other processes have run.

    `directory` makes an empty directory, for a copy of the files.
    """

    def __init__(self, cells: Sequence[Cell], directory: Callable[[], str]) -> None:
        self._cells = cells
        self.cell = cells[0]  # which of them this process runs
        self.forks: Forks[R] = Forks(directory)
        self.results: dict[str, R] = {}  # by the names of cells

    def part(self, _cell: Cell) -> Cell:
        """Returns the cell that this process goes on with. In the process that has begun it is the last, and
        the others have been run. Raises BranchError if one of them has not come to its end."""
        for cell in self._cells[:-1]:
            self.cell = cell
            answer = self.forks.fork()
            if answer is None:
                return cell
            if isinstance(answer, BranchError):
                raise BranchError(f"{cell.name}: {answer}")
            self.results[cell.name] = answer
        self.cell = self._cells[-1]
        return self.cell

    def finish(self, result: R) -> None:
        """Ends the process, if it is a branch; its parent gets the result."""
        self.forks.leave(result)

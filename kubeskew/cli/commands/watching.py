"""Shows people how far runs have come: bars on a terminal, else a line per cell, or every line with -v."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubeskew.cli import live
from kubeskew.cli.commands.options import show_progress
from kubeskew.conformance.results import FAILED, CellResult
from kubeskew.conformance.runner import Moment
from kubeskew.conformance.running import OUTCOMES, Audience
from kubeskew.conformance.scenario import Cell


def told(result: CellResult) -> str:
    """Returns a line on how a cell ended."""
    why = "" if result.passed else f": {result.failure.splitlines()[0]}"
    return f"{result.name}: {OUTCOMES[result.outcome]} in {result.seconds:.1f} s{why}"


@dataclass
class PlainLines:
    """Prints a line for each cell that ends; with `verbose` also what cells do."""

    total: int
    verbose: bool
    ended_cells: int = 0

    def hear(self, cell: Cell, moment: Moment) -> None:
        """Prints what a cell does, if that is asked for."""
        if self.verbose and not moment.is_last:
            show_progress(f"{cell.name}: {moment.text}")

    def ended(self, result: CellResult) -> None:
        """Prints how a cell ended."""
        self.ended_cells += 1
        show_progress(f"{self.ended_cells}/{self.total} {told(result)}")

    def say(self, text: str) -> None:
        """Prints a line."""
        show_progress(text)


@dataclass
class Bars:
    """Has a bar drawn for each cell that runs and one for all; what failed stays as a line."""

    screen: live.Screen
    total: int
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.screen.whole(self.total, "")

    def hear(self, cell: Cell, moment: Moment) -> None:
        """Draws what a cell does: the number of its step among all of them."""
        if moment.is_last:
            self.screen.gone(cell.name)
            return
        done = moment.step - 1 if moment.step else None
        self.screen.bar(cell.name, done, len(cell.steps()), moment.text)

    def ended(self, result: CellResult) -> None:
        """Counts a cell."""
        self.counts[result.outcome] = self.counts.get(result.outcome, 0) + 1
        counted = [f"{self.counts[each]} {OUTCOMES[each]}" for each in OUTCOMES if each in self.counts]
        self.screen.whole(self.total, ", ".join(counted))
        if result.outcome == FAILED:
            self.screen.line(told(result))

    def say(self, text: str) -> None:
        """Prints a line above the bars."""
        self.screen.line(text)


@contextmanager
def cells_shown(total: int, *, verbose: bool) -> Iterator[Audience]:
    """Gives what shows so many cells."""
    if verbose or not live.is_terminal():
        yield PlainLines(total, verbose)
        return
    with live.screen() as screen:
        yield Bars(screen, total)

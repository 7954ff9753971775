"""Gives the commands that repeat a run and its cells."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeskew.conformance.results import CellResult


@dataclass(frozen=True, slots=True)
class Repeating:
    """The command that repeats the run; and what that of a cell needs: files of scenarios, and flags."""

    command: Sequence[str]
    places: Mapping[str, str]
    flags: Sequence[str] = ()

    def run(self) -> str:
        return shlex.join([*self.command, *self.flags])

    def cell(self, cell: CellResult) -> str:
        place = self.places.get(cell.scenario, cell.scenario)
        words = [*self.command[:2], place, "--only", cell.name]
        words += [] if cell.seed is None else ["--simulate", "--seed", str(cell.seed)]
        return shlex.join([*words, *self.flags])

    def file(self, cell: CellResult) -> str | None:
        """Returns the file of a cell's scenario, from the working directory if it is below; None for one that
        comes along."""
        place = self.places.get(cell.scenario)
        if place is None:
            return None
        path, here = Path(place), Path.cwd()
        return str(path.relative_to(here) if path.is_relative_to(here) else path)

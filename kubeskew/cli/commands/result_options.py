"""Flags that say what is made of results: `--compare` with a record, `--prr` for a review."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.gates import all_gates, known_gate
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.cli.commands.cell_running import checked
from kubeskew.cli.commands.run_flags import RunFlags
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance import outcomes
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.outcomes import Outcome
from kubeskew.conformance.report import Run
from kubeskew.conformance.review import as_markdown

F = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ReviewFlags:
    """Holds the file to write, and the gates whose defaults count though no scenario sets them."""

    file: Path | None
    gates: Sequence[str]

    def check(self) -> None:
        """Raises UserError for what cannot be written, and for gates that no release has."""
        if self.gates and not self.file:
            raise UserError("--prr-gate is of the file that --prr writes: name it, or leave out --prr-gate")
        for name in self.gates:
            if not known_gate(name):
                hint = did_you_mean(name, all_gates())
                raise UserError(f"--prr-gate {name}: no release has such a gate{hint}")
        if self.file and not self.file.parent.is_dir():
            raise UserError(f"--prr {self.file}: there is no directory {self.file.parent}")

    def write(self, run: Run, selection: Selection) -> None:
        """Writes the evidence, if it is asked for.

        Of the gates, and of those that a header of the scenarios sets, the defaults of releases count.
        """
        if self.file is None:
            return
        if run.repeating is None:
            raise AssertionError("a run of the command line can be repeated")
        text = as_markdown(run, version("kubeskew"), run.repeating, [*self.gates, *selection.gates()])
        try:
            self.file.write_text(text)
        except OSError as error:
            raise ClusterError(f"cannot write {self.file}: {error.strerror}") from error


def review_options(command: F) -> F:
    """Adds the flags of a review."""
    for option in (
        click.option(
            "--prr-gate",
            "prr_gates",
            multiple=True,
            metavar="GATE",
            help="With --prr: a gate whose default counts, too, though no scenario sets it; repeatable.",
        ),
        click.option(
            "--prr",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Write Markdown for a production-readiness review here: "
            "what the run shows of rollouts and gates.",
        ),
    ):
        command = option(command)
    return command


def compare_options(command: F) -> F:
    """Adds the flag, and the file of recorded outcomes."""
    for option in (
        click.option(
            "--outcomes",
            "recorded",
            type=click.Path(path_type=Path, dir_okay=False),
            default=outcomes.RECORD,
            show_default="conformance/outcomes.json",
            help="The file of recorded outcomes.",
        ),
        click.option(
            "--compare", is_flag=True, help="Fail if a step's outcome is another than the recorded one."
        ),
    ):
        command = option(command)
    return command


def check_record(asked: RunFlags, used: bool) -> None:
    """Raises UserError where the record is `used` for clusters that it says nothing of."""
    if asked.bugs and used:
        raise UserError("--bugs: the record is of clusters with the bugs of their releases; leave out one")


def read_outcomes(path: Path) -> Mapping[str, Outcome]:
    """Returns the recorded outcomes. Raises UserError if they cannot be read."""
    return checked(lambda: outcomes.read(path))


def all_cells(selection: Selection, profile: str | None, asked: RunFlags) -> Sequence[str] | None:
    """Returns the names of all cells there are, simulated or not, where all were asked for; else None."""
    whole = profile == "full" and not asked.only and not asked.shard
    return [cell.name for cell in selection.cells()] if whole else None


def compared(before: Mapping[str, Outcome], run: Run, known: Sequence[str] | None) -> list[str]:
    """Returns a line for each outcome that is another than the recorded one."""
    return list(outcomes.differences(before, run.cells, known))

"""`kubeskew matrix --prr`: the evidence for a production-readiness review."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.gates import all_gates, known_gate
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.matrix import Selection
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

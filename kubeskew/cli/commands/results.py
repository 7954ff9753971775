"""Output of results: tables and JSON, `--compare` with a record, `--prr` for a review."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.gates import all_gates, known_gate
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.cli.commands.cell_runs import checked
from kubeskew.cli.commands.options import print_json, print_table
from kubeskew.cli.commands.run_flags import RunFlags
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance import matrix as matrices
from kubeskew.conformance import outcomes, real_outcomes
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.matrix_runs import OUTCOMES
from kubeskew.conformance.outcomes import Outcome
from kubeskew.conformance.real_outcomes import Comparison, Named, Recorded
from kubeskew.conformance.report import Repeating, Run
from kubeskew.conformance.reporting.annotations import annotations, error
from kubeskew.conformance.reporting.junit import remarks
from kubeskew.conformance.reporting.lanes import (
    by_programs,
    differing_lines,
    impossible_steps,
    is_alone,
    is_unlike,
    own_differences,
    shared,
    unlike_lines,
)
from kubeskew.conformance.reporting.page import is_simulated
from kubeskew.conformance.results import FAILED, NOT_RUN
from kubeskew.conformance.review import as_markdown

F = Callable[..., Any]
_SHOWN = 20  # differences of a cell
_DIFFERS = {"title": "differs from the recorded outcome"}
_UNLIKE = {"title": "differs from the emulated cell"}


@dataclass(frozen=True, slots=True)
class ReviewFlags:
    file: Path | None
    gates: Sequence[str]

    def check(self) -> None:
        """Files that cannot be written, and gates that no release has, are a UserError."""
        if self.gates and not self.file:
            raise UserError("--prr-gate is of the file that --prr writes: name it, or leave out --prr-gate")
        for name in self.gates:
            if not known_gate(name):
                hint = did_you_mean(name, all_gates())
                raise UserError(f"--prr-gate {name}: no release has such a gate{hint}")
        if self.file and not self.file.parent.is_dir():
            raise UserError(f"--prr {self.file}: there is no directory {self.file.parent}")

    def write(self, run: Run, selection: Selection) -> None:
        """Writes the evidence if `--prr` names a file.

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
    for option in (
        click.option(
            "--prr-gate",
            "prr_gates",
            multiple=True,
            metavar="GATE",
            help="With --prr: a feature gate to write about even if no scenario sets it; repeatable.",
        ),
        click.option(
            "--prr",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Write this Markdown file: answers for a production-readiness review of a KEP, from what "
            "the run "
            "showed of rollouts and gates.",
        ),
    ):
        command = option(command)
    return command


def compare_options(command: F) -> F:
    for option in (
        click.option(
            "--outcomes",
            "recorded",
            type=click.Path(path_type=Path, dir_okay=False),
            default=outcomes.RECORD,
            show_default="conformance/outcomes.json",
            help="The file with the outcomes for --compare and --record.",
        ),
        click.option(
            "--compare", is_flag=True, help="Fail if a step has another outcome than the recorded one."
        ),
    ):
        command = option(command)
    return command


def real_options(command: F) -> F:
    for option in (
        click.option(
            "--compare-real",
            type=click.Path(path_type=Path),
            metavar="[DIR]",
            is_flag=False,
            flag_value=real_outcomes.DIRECTORY,
            default=None,
            help="Fail if a step of a cell has another outcome than it had with real programs, as "
            "--record-real wrote it; with --real, with those in the same slots. Without DIR: "
            "conformance/real/.",
        ),
        click.option(
            "--add-outcomes",
            is_flag=True,
            help="With --record-real: keep what DIR has of the same programs, so that a step has every "
            "outcome that several runs showed.",
        ),
        click.option(
            "--record-real",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            default=None,
            help="With --real: write the outcomes of the cells into this directory, to outcomes-1.36.json "
            "and so on.",
        ),
        click.option(
            "--against-emulated",
            is_flag=True,
            help="With --real: run each cell also emulated, and fail if results, objects, events or metrics "
            "differ.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class RealOutcomes:
    """The folders of --record-real and --compare-real, and --add-outcomes."""

    written: Path | None
    read: Path | None
    add: bool = False

    def check(self, asked: RunFlags) -> None:
        """Flags that do not go together, and a folder that cannot be used, are a UserError."""
        if self.written and not asked.real:
            raise UserError("--record-real keeps the outcomes of real programs: name components by --real")
        if self.add and not self.written:
            raise UserError("--add-outcomes says how --record-real DIR records: name a directory")
        if asked.bugs and (self.written or self.read):
            raise UserError("--bugs: real programs have the bugs of their releases; leave out one")
        if self.written:
            there = next(each for each in (self.written, *self.written.absolute().parents) if each.exists())
            if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
                raise UserError(f"--record-real {self.written}: nothing can be written to {there}")
        self.recorded()

    def recorded(self) -> tuple[Recorded, Sequence[Named]]:
        directory = self.read
        if directory is None:
            return {}, ()
        return checked(lambda: (real_outcomes.read(directory), real_outcomes.read_named(directory)))

    def write(self, run: Run) -> None:
        directory = self.written
        if directory is None:
            return
        try:
            left_out = checked(lambda: real_outcomes.record(directory, run.cells, add=self.add))
        except OSError as error:
            raise ClusterError(f"cannot write to {directory}: {error.strerror}") from error
        for line in left_out:
            echo(f"kubeskew: {line}", err=True)

    def compared(self, run: Run) -> Comparison | None:
        if self.read is None:
            return None
        recorded, named = self.recorded()
        return real_outcomes.compare(recorded, run.cells, named)


def check_record(asked: RunFlags, used: bool) -> None:
    """Clusters that the record does not cover are refused with UserError if it is `used`."""
    if asked.real and used:
        raise UserError(
            "--real: the record is of emulated cells; --record-real keeps outcomes of real programs, and "
            "--against-emulated compares with them"
        )
    if asked.bugs and used:
        raise UserError("--bugs: the record is of clusters with the bugs of their releases; leave out one")


def read_outcomes(path: Path) -> Mapping[str, Outcome]:
    """Unreadable outcomes are a UserError."""
    return checked(lambda: outcomes.read(path))


def all_cells(selection: Selection, profile: str | None, asked: RunFlags) -> Sequence[str] | None:
    """None unless all cells were selected; both simulated and other cells count."""
    whole = profile == "full" and not asked.only and not asked.shard
    return [cell.name for cell in selection.cells()] if whole else None


def compared(before: Mapping[str, Outcome], run: Run, known: Sequence[str] | None) -> list[str]:
    return list(outcomes.differences(before, run.cells, known))


def repeating(
    selection: Selection, command: Sequence[str], bugs: Mapping[str, bool], flags: Sequence[str] = ()
) -> Repeating:
    """Scenarios of the package go by their names, others by their files."""
    bundled = {str(file) for file in matrices.bundled().values()}
    places = {
        scenario.name: scenario.source for scenario in selection.scenarios if scenario.source not in bundled
    }
    switched = ",".join(f"{name}={'on' if there else 'off'}" for name, there in bugs.items())
    return Repeating(command, places, [*flags, *(["--bugs", switched] if bugs else [])])


def show_results(
    report: Mapping[str, Any],
    output: str,
    directory: Path | None,
    differences: Sequence[str] | None,
    real: Comparison | None = None,
) -> int:
    """The result is 1 if a cell failed, an outcome differs from the recorded one, or lanes differ."""
    lanes = report["sideBySide"] or {}
    if output == "json":
        compared: dict[str, Any] = {} if differences is None else {"differences": list(differences)}
        if real is not None:
            compared |= {
                "realDifferences": list(real.differences),
                "namedRealDifferences": list(real.named),
                "notRecordedReal": list(real.unrecorded),
            }
        print_json({**report, **compared})
    else:
        _print_results(report, directory)
        if real is not None:
            _print_comparison(real)
        for line in differences or ():
            echo(f"differs from the record: {line}")
        if differences is not None:
            echo(f"{len(differences)} outcomes differ from the record")
        if output == "github":
            unlike = [*(differences or ()), *(real.differences if real else ())]
            lines = [*annotations(report), *(error(each, _DIFFERS) for each in unlike)]
            for line in (*lines, *(error(each, _UNLIKE) for each in unlike_lines(report["cells"]))):
                click.echo(line)
    differing = lanes.get("differing") or lanes.get("emulatedFailed") or (real and real.differences)
    return 1 if report[FAILED] or differences or differing else 0


def _print_comparison(real: Comparison) -> None:
    for line in real.differences:
        echo(f"differs from real programs: {line}")
    for line in real.named:
        echo(f"differs from real programs, as docs/fidelity.md says: {line}")
    if real.unrecorded:
        echo(f"not recorded with real programs: {', '.join(real.unrecorded)}")
    named = f", {len(real.named)} with a name" if real.named else ""
    echo(f"{real.compared} cells compared with real programs, {len(real.differences)} outcomes differ{named}")


def _print_results(report: Mapping[str, Any], directory: Path | None) -> None:
    if report["sideBySide"]:
        _print_lanes(report)
    else:
        _print_cells(report)
    for sets in report["failingSets"]:
        without = ", ".join("{" + ", ".join(members) + "}" for members in sets["without"])
        echo(f"\n{sets['cells']}: {sets['step']}: fails without {without}")
    known = f"{report['expected']} fail as upstream, " if report["expected"] else ""
    left = f"{report[NOT_RUN]} not run, " if report[NOT_RUN] else ""
    counts = f"{report['passed']} passed, {known}{left}{report[FAILED]} failed"
    clock = " of virtual time" if is_simulated(report) else ""
    echo(f"\n{counts}; the cells took {report['seconds']:.1f} s{clock}")
    steps = sum(len(cell["steps"]) for cell in report["cells"])
    echo(f"Steps: {steps - report['steps'][NOT_RUN]} run, {report['steps'][NOT_RUN]} not run")
    for programs, cells in by_programs(report["cells"]):
        echo(f"Real programs: {programs} in {cells} cell{'' if cells == 1 else 's'}")
    if directory:
        echo(f"Report: {directory / 'index.html'}")


def _print_lanes(report: Mapping[str, Any]) -> None:
    """Cells that came out alike are one line together, and so is a difference that several cells have."""
    cells = report["cells"]
    unlike, common = [cell for cell in cells if is_unlike(cell)], shared(cells)
    rows = [
        {
            "cell": cell["name"],
            "real": OUTCOMES[cell["result"]],
            "emulated": OUTCOMES[lanes["emulated"]["result"]] if (lanes := cell["sideBySide"]) else "",
            "differences": len(own_differences(cell, common)),
            "shared": len(lanes["differences"]) - len(own_differences(cell, common)) if lanes else 0,
        }
        for cell in unlike
    ]
    alone = {cell["name"] for cell in unlike if is_alone(cell, common)}
    of_their_own = [row for row in rows if row["cell"] in alone]
    if of_their_own:
        print_table(["CELL", "REAL", "EMULATED", "DIFFERENCES", "SHARED"], of_their_own)
    for cell in unlike:
        failed = [f"real: failed: {cell['failure']}"] if not cell["passed"] else []
        lines = [*failed, *differing_lines(cell, common)]
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        if lines:
            echo("\n  ".join([f"\n{cell['name']}", *lines[:_SHOWN], *more]))
    for difference, names in common.items():
        echo(f"\nin {len(names)} cells: {difference}")
    for reason, steps, count in impossible_steps(cells):
        echo(f"\n{steps} steps of {count} cells not run: {reason}")
    echo(
        f"\n{len(cells) - len(unlike)} cells came out alike, {len(rows) - len(of_their_own)} with shared "
        f"differences alone, {len(of_their_own)} with others"
    )


def _print_cells(report: Mapping[str, Any]) -> None:
    rows = [
        {
            "cell": cell["name"],
            "result": OUTCOMES[cell["result"]],
            "steps": f"{cell['stepsRun']} of {len(cell['steps'])}"
            if cell["stepsNotRun"]
            else cell["stepsRun"],
            "seconds": f"{cell['seconds']:.1f}",
        }
        for cell in report["cells"]
    ]
    print_table(["CELL", "RESULT", "STEPS", "SECONDS"], rows)
    for cell in report["cells"]:
        lines = [f"failed: {cell['failure']}"] if not cell["passed"] else []
        lines += remarks(cell)
        if lines:
            echo("\n  ".join([f"\n{cell['name']}", *lines]))

"""Shows what came of a run of scenarios: tables and JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kubeskew.cli.commands.options import print_json, print_table
from kubeskew.cli.terminal import echo
from kubeskew.conformance import matrix as matrices
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.report import Run, as_json, remarks
from kubeskew.conformance.reporting.repeating import Repeating
from kubeskew.conformance.results import FAILED, NOT_RUN
from kubeskew.conformance.running import OUTCOMES


def repeating(
    selection: Selection, command: Sequence[str], bugs: Mapping[str, bool], flags: Sequence[str] = ()
) -> Repeating:
    """Returns what repeats a run and its cells; scenarios that come along go by their names."""
    bundled = {str(file) for file in matrices.bundled().values()}
    places = {
        scenario.name: scenario.source for scenario in selection.scenarios if scenario.source not in bundled
    }
    switched = ",".join(f"{name}={'on' if there else 'off'}" for name, there in bugs.items())
    return Repeating(command, places, [*flags, *(["--bugs", switched] if bugs else [])])


def show(run: Run, output: str, report: Path | None, differences: Sequence[str] | None) -> int:
    """Prints the results; returns 1 if a cell failed or an outcome differs from the recorded one."""
    if output == "json":
        compared = {} if differences is None else {"differences": list(differences)}
        print_json({**as_json(run), **compared})
    else:
        _print_results(run, report)
        for line in differences or ():
            echo(f"differs from the record: {line}")
        if differences is not None:
            echo(f"{len(differences)} outcomes differ from the record")
    return 1 if run.count(FAILED) or differences else 0


def _print_results(run: Run, report: Path | None) -> None:
    rows = [
        {
            "cell": cell.name,
            "result": OUTCOMES[cell.outcome],
            "steps": f"{cell.steps_run} of {len(cell.steps)}" if cell.steps_not_run else cell.steps_run,
            "seconds": f"{cell.seconds:.1f}",
        }
        for cell in run.cells
    ]
    print_table(["CELL", "RESULT", "STEPS", "SECONDS"], rows)
    for cell in run.cells:
        lines = [f"failed: {cell.failure}"] if not cell.passed else []
        lines += remarks(cell)
        if lines:
            echo("\n  ".join([f"\n{cell.name}", *lines]))
    for sets in run.failing_sets:
        without = ", ".join("{" + ", ".join(members) + "}" for members in sets.without)
        echo(f"\n{sets.cells}: {sets.step}: fails without {without}")
    known = f"{run.count('expected')} fail as upstream, " if run.count("expected") else ""
    left = f"{run.count(NOT_RUN)} not run, " if run.count(NOT_RUN) else ""
    counts = f"{run.count('passed')} passed, {known}{left}{run.count(FAILED)} failed"
    echo(f"\n{counts}; the cells took {run.seconds:.1f} s")
    steps = sum(len(cell.steps) for cell in run.cells)
    echo(f"Steps: {steps - run.count_steps(NOT_RUN)} run, {run.count_steps(NOT_RUN)} not run")
    if report:
        echo(f"Report: {report / 'index.html'}")

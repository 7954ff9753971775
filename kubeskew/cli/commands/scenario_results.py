"""Shows what came of a run of scenarios: tables and JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kubeskew.cli.commands.options import print_json, print_table
from kubeskew.cli.terminal import echo
from kubeskew.conformance import matrix as matrices
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.reporting.annotations import annotations, error
from kubeskew.conformance.reporting.junit import remarks
from kubeskew.conformance.reporting.page import is_simulated
from kubeskew.conformance.reporting.repeating import Repeating
from kubeskew.conformance.results import FAILED, NOT_RUN
from kubeskew.conformance.running import OUTCOMES

_DIFFERS = {"title": "differs from the recorded outcome"}


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


def show(
    report: Mapping[str, Any], output: str, directory: Path | None, differences: Sequence[str] | None
) -> int:
    """Prints a report; returns 1 if a cell failed or an outcome differs from the recorded one."""
    if output == "json":
        compared = {} if differences is None else {"differences": list(differences)}
        print_json({**report, **compared})
    else:
        _print_results(report, directory)
        for line in differences or ():
            echo(f"differs from the record: {line}")
        if differences is not None:
            echo(f"{len(differences)} outcomes differ from the record")
        if output == "github":
            for line in (*annotations(report), *(error(each, _DIFFERS) for each in differences or ())):
                click.echo(line)
    return 1 if report[FAILED] or differences else 0


def _print_results(report: Mapping[str, Any], directory: Path | None) -> None:
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
    if directory:
        echo(f"Report: {directory / 'index.html'}")

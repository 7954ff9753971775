"""`kubeskew run` and `kubeskew matrix`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cli.commands.options import output_option, print_json, print_table, run_async, show_progress
from kubeskew.cli.control import KubeconfigControl, LocalControl
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.forking import component_processes
from kubeskew.conformance import matrix as matrices
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.failing_sets import failing_sets
from kubeskew.conformance.matrix import OUTCOMES
from kubeskew.conformance.report import Run, as_json, write
from kubeskew.conformance.scenario import Cell, Scenario

F = Callable[..., Any]
_KINDS = ("apiserver", "controller-manager")


def run_options(command: F) -> F:
    """The flags that `run` and `matrix` share."""
    for option in (
        click.option(
            "--report",
            type=click.Path(path_type=Path, file_okay=False),
            help="Write index.html, report.json, junit.xml here.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=os.cpu_count() or 1,
            show_default="one per core",
            help="Cells to run side by side.",
        ),
        click.option("--keep", is_flag=True, help="Keep the state directories, to look at."),
        output_option,
    ):
        command = option(command)
    return command


@click.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Run on this cluster instead of one of our own.",
)
@run_options
def run(
    scenarios: tuple[str, ...],
    kubeconfig: Path | None,
    report: Path | None,
    jobs: int,
    keep: bool,
    output: str,
) -> int:
    """Run scenarios, by name or by file, each cell on a fresh cluster.

    \b
    kubeskew run kep-5004/upgrade-downgrade
    kubeskew run my-scenario.yaml --report report
    """
    found = [_find(name) for name in scenarios]
    cells = [cell for scenario in found for cell in scenario.cells()]
    if kubeconfig:
        for scenario in found:
            if scenario.needs_cluster:
                raise UserError(f"{scenario.name} changes its cluster's components: leave out --kubeconfig")
    title = ", ".join(scenario.name for scenario in found)
    return _run(title, cells, kubeconfig, report, jobs, keep, output)


@click.command()
@click.option(
    "--profile",
    type=click.Choice(sorted(matrices.PROFILES)),
    default="quick",
    show_default=True,
    help="Which cells.",
)
@click.option("--only", default="*", metavar="PATTERN", help="Only cells whose names match, as in a shell.")
@run_options
def matrix(profile: str, only: str, report: Path | None, jobs: int, keep: bool, output: str) -> int:
    """Run every cell of a profile.

    \b
    kubeskew matrix
    kubeskew matrix --profile full --report report
    kubeskew matrix --profile full --only 'kep-5004/staged-flips/explicit/*'
    """
    cells = matrices.cells_of(profile, only)
    if not cells:
        raise UserError(f"--only {only}: no cell of the profile {profile} has such a name")
    return _run(f"matrix {profile}", cells, None, report, jobs, keep, output)


def _find(name: str) -> Scenario:
    try:
        return matrices.find(name)
    except ScenarioError as error:
        raise UserError(str(error)) from error


def _run(
    title: str,
    cells: Sequence[Cell],
    kubeconfig: Path | None,
    report: Path | None,
    jobs: int,
    keep: bool,
    output: str,
) -> int:
    """Run the cells, print the table, write the report; 1 if any failed."""
    clock = SystemClock()

    started = clock.now()
    with component_processes(*(() if kubeconfig else _KINDS), often=True) as processes:

        def control_for(_cell: Cell, progress: Callable[[str], None]) -> ClusterControl:
            if kubeconfig:
                return KubeconfigControl(kubeconfig)
            return LocalControl(clock, progress, processes, keep=keep)

        results = run_async(matrices.run_cells(cells, control_for, clock, show_progress, jobs))
    scenarios = {cell.scenario.name: cell.scenario for cell in cells}.values()
    finished = Run(title, started, results, failing_sets(scenarios, results))
    if report:
        try:
            write(finished, report)
        except OSError as error:
            raise ClusterError(f"cannot write the report to {report}: {error.strerror}") from error
    if output == "json":
        print_json(as_json(finished))
    else:
        _print_results(finished, report)
    return 1 if finished.count("failed") else 0


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
        if not cell.passed:
            echo(f"\n{cell.name}\n  {cell.failure}")
    for each in run.failing_sets:
        without = ", ".join("{" + ", ".join(members) + "}" for members in each.without)
        echo(f"\n{each.cells}: {each.step}: fails without {without}")
    known = f"{run.count('expected')} fail as upstream, " if run.count("expected") else ""
    left = f"{run.count('notRun')} not run, " if run.count("notRun") else ""
    echo(f"\n{run.count('passed')} passed, {known}{left}{run.count('failed')} failed in {run.seconds:.1f} s")
    steps = sum(len(cell.steps) for cell in run.cells)
    echo(f"Steps: {steps - run.count_steps('notRun')} run, {run.count_steps('notRun')} not run")
    if report:
        echo(f"Report: {report / 'index.html'}")

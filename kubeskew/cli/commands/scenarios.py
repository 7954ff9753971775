"""`kubeskew run` and `kubeskew matrix`."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from kubeskew.apimachinery.client.kubeconfig import KubeconfigError, load_kubeconfig
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.cli import completion
from kubeskew.cli.commands.options import output_option, print_json, print_table, run_async, show_progress
from kubeskew.cli.commands.replaying import faults_option, replay
from kubeskew.cli.commands.review_options import ReviewFlags, review_options
from kubeskew.cli.commands.scenario_results import repeating, show
from kubeskew.cli.commands.watching import cells_shown
from kubeskew.cli.shards import ShardType
from kubeskew.cli.subcommands import CommandWithSubcommands
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.forking import component_processes
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.skew import UPGRADE_ORDER
from kubeskew.conformance import matrix as matrices
from kubeskew.conformance import outcomes, running
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.controls import KubeconfigControl, LocalControl
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.failing_sets import failing_sets
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.report import Run, write
from kubeskew.conformance.reporting.repeating import Repeating
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resuming import REPORT, taken_over
from kubeskew.conformance.scenario import Cell

F = Callable[..., Any]

EXPLORATION = "exploration.json"  # as simulation/explore/keeping.py has it, which is slow to import
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunFlags:
    """Holds the flags that `run` and `matrix` share."""

    only: tuple[str, ...]
    shard: tuple[int, int] | None
    listing: bool
    report: Path | None
    resume: bool
    jobs: int
    keep: bool
    simulate: bool
    seed: int | None
    bugs: dict[str, bool]
    verbose: bool
    output: str


def run_options(command: F) -> F:
    """Adds the flags of `Asked`."""
    for option in (
        click.option(
            "--only",
            multiple=True,
            metavar="PATTERN",
            shell_complete=completion.cells,
            help="Only cells whose names match, as in a shell; repeatable.",
        ),
        click.option(
            "--shard", type=ShardType(), metavar="I/N", help="Only the I-th of N parts of the cells."
        ),
        click.option("--list", "listing", is_flag=True, help="Print the cells instead of running them."),
        click.option(
            "--report",
            type=click.Path(path_type=Path, file_okay=False),
            help="Write index.html, report.json, junit.xml here.",
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="Take over the cells of --report that did not fail; run the others only.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=os.cpu_count() or 1,
            show_default="one per core",
            help="Cells to run side by side.",
        ),
        click.option("--keep", is_flag=True, help="Keep the state directories, to look at."),
        click.option(
            "--simulate",
            is_flag=True,
            help="Run each cell's cluster in one process and one event loop, in virtual time.",
        ),
        click.option("--seed", type=int, default=None, help="Of a simulation's randomness [default: 0]."),
        bugs_option,
        click.option("-v", "--verbose", is_flag=True, help="Print all that cells do, in lines."),
        output_option,
    ):
        command = option(command)
    return command


@click.command()
@click.argument(
    "scenarios", nargs=-1, required=True, metavar="SCENARIO...", shell_complete=completion.scenarios
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Run on this cluster instead of one of our own.",
)
@faults_option
@run_options
def run(scenarios: tuple[str, ...], kubeconfig: Path | None, faults: Path | None, **flags: Any) -> int:
    """Run scenarios, by name or by file, each cell on a fresh cluster.

    Of a folder, all files below it that are called chainsaw-test.yaml are run. On the cluster of --kubeconfig
    what they made is removed at their end.

    \b
    kubeskew run kep-5004/upgrade-downgrade
    kubeskew run my-scenario.yaml --report report
    kubeskew run my-chainsaw-tests
    kubeskew run my-chainsaw-tests --kubeconfig ~/.kube/config
    kubeskew run kep-5004/staged-flips --only '*/explicit/none'
    kubeskew run kep-5004/upgrade-downgrade --simulate --seed 7
    kubeskew run kep-5004/quota/1.35 --simulate --seed 7 --faults plan.json
    kubeskew run known-bugs/k8s-134773 --simulate --bugs k8s-134773=off
    """
    if faults:
        return replay(scenarios, flags["only"], faults, {**flags, "kubeconfig": kubeconfig})
    asked = _asked(flags)
    if kubeconfig and asked.bugs:
        raise UserError("--bugs: the cluster of --kubeconfig has the bugs that it has; leave out one")
    if kubeconfig and asked.simulate:
        raise UserError("choose one: --kubeconfig runs on that cluster, --simulate on simulated ones")
    if kubeconfig:
        _check_kubeconfig(kubeconfig, asked)
    with _component_processes(asked, kubeconfig) as processes:
        selection = _checked(lambda: matrices.of_scenarios(scenarios))
        if kubeconfig:
            for scenario in selection.scenarios:
                if scenario.needs_cluster:
                    raise UserError(
                        f"{scenario.name} changes its cluster's components: leave out --kubeconfig"
                    )
        cells = _cells(selection, asked)
        if asked.listing:
            return _list(cells, asked)
        at = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        again = repeating(selection, _words("run", scenarios, None, asked), asked.bugs, at)
        finished = _run(selection, cells, asked, kubeconfig, processes, again)
    return show(finished, asked.output, asked.report, None)


@click.command(cls=CommandWithSubcommands, subcommands={"compare": "kubeskew.cli.commands.comparing:compare"})
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO...]", shell_complete=completion.scenarios)
@click.option(
    "--profile",
    metavar="NAME|FILE",
    help=f"Which cells: {', '.join(matrices.PROFILES)}; or a file that says so [default: first].",
)
@click.option("--compare", is_flag=True, help="Fail if a step's outcome is another than the recorded one.")
@click.option("--record", is_flag=True, help="Record the outcomes of the cells that did not fail.")
@click.option(
    "--outcomes",
    "recorded",
    type=click.Path(path_type=Path, dir_okay=False),
    default=outcomes.RECORD,
    show_default="conformance/outcomes.json",
    help="The file of recorded outcomes.",
)
@review_options
@run_options
def matrix(
    scenarios: tuple[str, ...],
    profile: str | None,
    prr: Path | None,
    prr_gates: tuple[str, ...],
    compare: bool,
    record: bool,
    recorded: Path,
    **flags: Any,
) -> int:
    """Run the cells of scenarios, or of a profile.

    \b
    kubeskew matrix
    kubeskew matrix --profile full --report report
    kubeskew matrix --profile full --report report --resume
    kubeskew matrix --profile full --only 'kep-5004/staged-flips/explicit/*'
    kubeskew matrix mine.yaml other.yaml --jobs 4
    kubeskew matrix --profile mine-profile.yaml --list -o json
    kubeskew matrix --profile full --compare
    kubeskew matrix compare report-before report-after
    kubeskew matrix kep-5004/pairs kep-5004/on-off-on --simulate --prr evidence.md
    kubeskew matrix --profile full --report report --resume --prr evidence.md
    kubeskew matrix mine.yaml --prr evidence.md --prr-gate DRAPartitionableDevices
    """
    if scenarios and profile:
        raise UserError("name scenarios or a profile, not both: a profile in a file can list scenarios")
    if compare and record:
        raise UserError("--compare holds outcomes against the record, --record changes it: choose one")
    asked = _asked(flags)
    if asked.bugs and (compare or record):
        raise UserError("--bugs: the record is of clusters with the bugs of their releases; leave out one")
    review = ReviewFlags(prr, prr_gates)
    review.check()
    if asked.simulate and record:
        raise UserError("--record: the record is of processes; leave out --simulate")
    with _component_processes(asked, None) as processes:
        selection = _checked(
            lambda: matrices.of_scenarios(scenarios) if scenarios else matrices.of_profile(profile or "first")
        )
        cells = _cells(selection, asked)
        if asked.listing:
            return _list(cells, asked)
        before = _checked(lambda: outcomes.read(recorded)) if compare or record else {}
        again = repeating(selection, _words("matrix", scenarios, profile, asked), asked.bugs)
        finished = _run(selection, cells, asked, None, processes, again)
    review.write(finished, selection)
    whole = profile == "full" and not asked.only and not asked.shard
    known = [cell.name for cell in cells] if whole else None
    if record:
        left_out = outcomes.record(recorded, finished.cells, known)
        for name in left_out:
            echo(f"kubeskew: {name} failed: its recorded outcome stays as it is", err=True)
    return show(
        finished,
        asked.output,
        asked.report,
        list(outcomes.differences(before, finished.cells, known)) if compare else None,
    )


def _words(command: str, scenarios: Sequence[str], profile: str | None, asked: RunFlags) -> list[str]:
    """Returns the words of the command that runs the same cells again."""
    words = ["kubeskew", command, *scenarios, *(["--profile", profile] if profile else [])]
    words += [word for pattern in asked.only for word in ("--only", pattern)]
    words += ["--shard", "/".join(map(str, asked.shard))] if asked.shard else []
    return words + (["--simulate", "--seed", str(asked.seed or 0)] if asked.simulate else [])


def _asked(flags: dict[str, Any]) -> RunFlags:
    asked = RunFlags(**flags)
    if asked.simulate and asked.keep:
        raise UserError("--keep: a simulation has no state directory that could be looked at; leave it out")
    if asked.seed is not None and not asked.simulate:
        raise UserError("--seed is of simulations: add --simulate, or leave it out")
    if asked.resume and asked.bugs:
        raise UserError("leave out --resume: the report may be of cells with other known bugs")
    if asked.report and (asked.report / EXPLORATION).exists():
        raise UserError(
            f"--report {asked.report}: an exploration is kept there, whose report would be lost: "
            "name another directory"
        )
    if asked.resume and not asked.report:
        raise UserError(
            "--resume goes on with the run that a report tells of: name its directory by --report"
        )
    return asked


def _check_kubeconfig(kubeconfig: Path, asked: RunFlags) -> None:
    """Raises UserError for a file that no cell could use, and for flags that do not go with it."""
    if asked.resume:
        raise UserError("leave out --resume: nobody knows whether the cluster of --kubeconfig is as it was")
    try:
        load_kubeconfig(kubeconfig).ssl_context()
    except (KubeconfigError, OSError) as error:  # what OpenSSL says of credentials is an OSError
        raise UserError(f"--kubeconfig {kubeconfig} cannot be used: {error}") from error


def _checked(work: Callable[[], T]) -> T:
    """Returns what the work returns; the errors of a scenario are the user's."""
    try:
        return work()
    except ScenarioError as error:
        raise UserError(str(error)) from error


def _cells(selection: Selection, asked: RunFlags) -> list[Cell]:
    cells = _checked(lambda: selection.cells(asked.only))
    if not cells:
        raise UserError(
            f"--only {', '.join(asked.only)}: no cell of {selection.title} has such a name; --list shows them"
        )
    if asked.bugs:
        cells = [replace(cell, scenario=replace(cell.scenario, bugs=asked.bugs)) for cell in cells]
    if asked.simulate:
        cells = _simulated(cells)
    if not asked.shard:
        return cells
    deal = matrices.shard_of_groups if asked.simulate else matrices.shard
    part = deal(cells, *asked.shard)
    if not part:
        raise UserError(
            f"--shard {asked.shard[0]}/{asked.shard[1]}: empty, there are {len(cells)} cells in all"
        )
    return part


def _simulated(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells that can be simulated, and names the others. Raises UserError if there are none."""
    scripts = [cell.name for cell in cells if cell.uses("script") or cell.uses("command")]
    if scripts:
        why = "`script` and `command` run other programs, which cannot see a simulated cluster"
        echo(f"kubeskew: not simulated: {', '.join(scripts)}: {why}", err=True)
    if len(scripts) == len(cells):
        raise UserError("there is nothing to simulate: leave out --simulate")
    return [cell for cell in cells if cell.name not in scripts]


def _list(cells: Sequence[Cell], asked: RunFlags) -> int:
    """Prints the cells, with the numbers of their steps and of those that are to fail or not to be run."""
    rows = [
        {
            "cell": cell.name,
            "steps": len(cell.steps()),
            "expected": len(cell.expected_failures()),
            "not run": len(cell.exemptions()),
            "scenario": cell.scenario.name,
            "parameters": dict(cell.parameters),
            "file": cell.scenario.source,
        }
        for cell in cells
    ]
    if asked.output == "json":
        names = {"cell": "name", "not run": "notRun"}
        print_json([{names.get(key, key): value for key, value in row.items()} for row in rows])
    else:
        print_table(["CELL", "STEPS", "EXPECTED", "NOT RUN"], rows)
    return 0


def _component_processes(asked: RunFlags, kubeconfig: Path | None) -> AbstractContextManager[Processes]:
    """Gives what starts components; while scenarios are read, it imports for them, if any will be started."""
    kinds = () if kubeconfig or asked.listing or asked.simulate else UPGRADE_ORDER
    return component_processes(*kinds, often=True, dependent=True)


def _run(
    selection: Selection,
    cells: Sequence[Cell],
    asked: RunFlags,
    kubeconfig: Path | None,
    processes: Processes,
    again: Repeating,
) -> Run:
    """Runs the cells and writes the report, of an interrupted run as far as it came."""
    clock = SystemClock()

    started = clock.now()
    if not kubeconfig:  # a test that says nothing of its cluster gets the usual one
        cells = [
            replace(cell, scenario=replace(cell.scenario, cluster=cell.scenario.cluster or {}))
            for cell in cells
        ]
    taken: list[CellResult] = []
    if asked.resume and asked.report:
        report = asked.report
        taken = _checked(lambda: taken_over(report, selection.title, cells))
        show_progress(f"{len(taken)} of {len(cells)} cells taken over from {report / REPORT}")
    known = {result.name for result in taken}
    done: list[CellResult] = [*taken]

    def control_for(_cell: Cell, progress: Callable[[str], None]) -> ClusterControl:
        if kubeconfig:
            return KubeconfigControl(kubeconfig)
        directory = Path(tempfile.mkdtemp(prefix="kubeskew-"))  # short, for the paths of sockets are limited
        return LocalControl(directory, Platform(clock, processes), progress, keep=asked.keep)

    left = [cell for cell in cells if cell.name not in known]
    try:
        with cells_shown(len(left), verbose=asked.verbose) as audience:
            if asked.simulate:
                from kubeskew.simulation.matrix import simulate_cells

                results = simulate_cells(left, asked.seed or 0, audience, asked.jobs, done)
            else:
                jobs = running.on_one_cluster(left, asked.jobs) if kubeconfig else asked.jobs
                results = run_async(running.run_cells(left, control_for, clock, audience, jobs, done))
    except KeyboardInterrupt:
        _finish(selection, started, running.interrupted(cells, done), asked, again)
        raise
    by_name = {result.name: result for result in (*taken, *results)}
    return _finish(selection, started, [by_name[cell.name] for cell in cells], asked, again)


def _finish(
    selection: Selection,
    started: datetime,
    results: Sequence[CellResult],
    asked: RunFlags,
    again: Repeating,
) -> Run:
    """Writes the report of these results."""
    finished = Run(selection.title, started, results, failing_sets(selection.scenarios, results), again)
    if asked.report:
        try:
            write(finished, asked.report)
        except OSError as error:
            raise ClusterError(f"cannot write the report to {asked.report}: {error.strerror}") from error
    return finished

"""`kubeskew run` and `kubeskew matrix`, with the commands below `matrix`, and with a plan of faults.

`kubeskew run CELL --simulate --faults PLAN.json` plays a plan of faults in one simulated cell.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.client.kubeconfig import KubeconfigError, load_kubeconfig
from kubeskew.cli import completion
from kubeskew.cli.commands.cell_runs import Assignment, checked, part_of, processes_for, run_cells
from kubeskew.cli.commands.options import print_json, print_table, show_progress
from kubeskew.cli.commands.results import (
    RealOutcomes,
    ReviewFlags,
    all_cells,
    check_record,
    compare_options,
    compared,
    read_outcomes,
    real_options,
    repeating,
    review_options,
    show_results,
)
from kubeskew.cli.commands.run_flags import RunFlags, asked_for, run_options
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.conformance import matrix as matrices
from kubeskew.conformance import outcomes
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.report import as_json
from kubeskew.conformance.scenario import Cell

faults_option = click.option(
    "--faults",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN.json",
    help="With --simulate and one cell: inject the faults of this file, and check the invariants afterwards "
    "(docs/simulation.md). Without --seed the file's seed is used.",
)
_ALONE = ("kubeconfig", "shard", "listing", "report", "resume", "keep", "dask", "real")


class CommandWithSubcommands(click.Command):
    """The first argument may be the name of another command, which then takes the rest.

    `subcommands` are module:attribute by name, imported when they are called.
    """

    def __init__(self, *args: Any, subcommands: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.subcommands = subcommands

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context belongs to the command itself, or to the subcommand that is called."""
        if args and args[0] in self.subcommands:
            name, *rest = args
            return self._command(name).make_context(f"{info_name} {name}", rest, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _command(self, name: str) -> click.Command:
        module, _, attribute = self.subcommands[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._command(name).get_short_help_str(90)) for name in self.subcommands]
            )


def play_faults(names: Sequence[str], only: Sequence[str], path: Path, flags: Mapping[str, Any]) -> int:
    """The result is 1 if the cell failed, broke an invariant, or no fault fired."""
    from kubeskew.simulation.explore.selection import cells_named
    from kubeskew.simulation.faults.plan import PlanError, load
    from kubeskew.simulation.runs import FaultyRun, simulate_with_faults

    if not flags["simulate"]:
        raise UserError("--faults is of simulations: add --simulate, or leave it out")
    if wrong := [name for name in _ALONE if flags.get(name)]:
        flag = "list" if wrong[0] == "listing" else wrong[0]
        raise UserError(f"--{flag}: cannot be combined with --faults; leave one of them out")
    try:
        plan, cells = load(path), cells_named(names, flags["bugs"])
    except (PlanError, ScenarioError) as error:
        raise UserError(str(error)) from error
    cells = [cell for cell in cells if not only or any(fnmatchcase(cell.name, each) for each in only)]
    if len(cells) != 1:
        raise UserError(f"--faults plays in one cell, found {len(cells)}: name one, or choose it by --only")
    show_progress(str(plan))
    seed = plan.seed if flags["seed"] is None else flags["seed"]
    run = FaultyRun(plan, seed)
    ran = simulate_with_faults(cells[0], run, lambda moment: show_progress(moment.text))
    played = ran.played
    if played is None:
        raise AssertionError("a plan was played")
    fired = [{"fault": fault.name, "fired": played.fired.get(fault.name, 0)} for fault in plan.faults]
    shows_nothing = bool(plan.faults) and len(played.unfired) == len(plan.faults)
    broken = [
        {"invariant": each.code, "message": each.message, "revision": each.revision, "time": each.time}
        for each in played.violations
    ]
    if flags["output"] == "json":
        document = {
            "cell": cells[0].name, "result": ran.result.outcome, "failure": ran.result.failure,
            "seed": ran.seed, "logHash": ran.log_hash, "virtualSeconds": round(ran.virtual_seconds, 6),
            "healedAt": round(played.healed_at, 6), "healedBecause": played.healed_because,
            "settled": played.settled, "faults": fired, "violations": broken, "exceptions": ran.failures,
            "notes": played.notes, "points": played.points,
        }  # fmt: skip
        print_json(document)
    else:
        print_table(["FAULT", "FIRED"], fired)
        click.echo(f"\n{cells[0].name}: {ran.result.outcome} {ran.result.failure}".rstrip())
        for line in [*(f"{each['invariant']}: {each['message']}" for each in broken), *ran.failures]:
            click.echo(line)
        settled = "has settled" if played.settled else "has not settled"
        click.echo(f"The cluster {settled}. Log {ran.log_hash}, {ran.virtual_seconds:.1f} virtual seconds.")
    for note in played.notes:
        echo(f"kubeskew: {note}", err=True)
    if shows_nothing:
        echo("kubeskew: no fault fired: this run has shown nothing", err=True)
    return 1 if not ran.result.passed or broken or ran.failures or shows_nothing else 0


@click.command()
@click.argument(
    "scenarios", nargs=-1, required=True, metavar="SCENARIO...", shell_complete=completion.scenarios
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Run on the cluster of this kubeconfig instead of starting one.",
)
@faults_option
@run_options
def run(scenarios: tuple[str, ...], kubeconfig: Path | None, faults: Path | None, **flags: Any) -> int:
    """Run scenarios: tests of clusters, written in YAML.

    A scenario creates objects, moves components between versions, flips feature gates, and says what must
    hold (docs/scenarios.md). It is run once for each combination of its parameters, such as a path of
    versions. Each of these runs is a cell: it has a name, SCENARIO/VALUES, and a cluster of its own.

    SCENARIO is the name of a scenario that comes with kubeskew, the name of one of its cells, a file, or a
    folder, in which all files named chainsaw-test.yaml are run. Exits 1 if a cell fails. With --kubeconfig,
    objects that a scenario has created are removed at its end.

    \b
    kubeskew run kep-5004/upgrade-downgrade
    kubeskew run my-scenario.yaml --report report
    kubeskew run my-chainsaw-tests
    kubeskew run my-chainsaw-tests --kubeconfig ~/.kube/config
    kubeskew run kep-5004/staged-flips --only '*/explicit/none'
    kubeskew run kep-5004/upgrade-downgrade --simulate --seed 7
    kubeskew run kep-5004/quota/1.35 --simulate
    kubeskew run kep-5004/quota/1.35 --simulate --seed 7 --faults plan.json
    kubeskew run known-bugs/k8s-134773 --simulate --bugs k8s-134773=off
    kubeskew run kep-5004/quota/1.36 --binaries ~/builds --real scheduler
    """
    if faults:
        return play_faults(scenarios, flags["only"], faults, {**flags, "kubeconfig": kubeconfig})
    asked = asked_for(flags)
    if kubeconfig and asked.bugs:
        raise UserError("--bugs: the cluster of --kubeconfig has the bugs that it has; leave out one")
    if kubeconfig and asked.real:
        raise UserError("--real: the cluster of --kubeconfig has the programs that it has; leave out one")
    if kubeconfig and asked.simulate:
        raise UserError("choose one: --kubeconfig runs on that cluster, --simulate on simulated ones")
    if kubeconfig:
        _check_kubeconfig(kubeconfig, asked)
    with processes_for(asked, kubeconfig) as processes:
        selection = checked(lambda: matrices.of_scenarios(scenarios))
        if kubeconfig:
            for scenario in selection.scenarios:
                if scenario.needs_cluster:
                    raise UserError(
                        f"{scenario.name} changes its cluster's components: leave out --kubeconfig"
                    )
        cells = cells_of(selection, asked)
        if asked.listing:
            return _list(_shard(cells, asked), asked)
        at = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        assignment = _assignment(selection, cells, asked, ["run", *scenarios], at)
        finished = run_cells(assignment, asked, kubeconfig, processes)
    return show_results(as_json(finished), asked.output, asked.report, None)


@click.command(
    cls=CommandWithSubcommands,
    subcommands={
        "compare": "kubeskew.cli.commands.reports:compare",
        "merge": "kubeskew.cli.commands.reports:merge",
    },
)
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO...]", shell_complete=completion.scenarios)
@click.option(
    "--profile",
    metavar="NAME|FILE",
    help=f"A selection of cells: {', '.join(matrices.PROFILES)}; or a file that has one [default: first].",
)
@compare_options
@click.option(
    "--record",
    is_flag=True,
    help="Write the outcomes of the cells that did not fail to the file of --outcomes.",
)
@real_options
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
    record_real: Path | None,
    compare_real: Path | None,
    add_outcomes: bool,
    **flags: Any,
) -> int:
    """Run many scenarios, with all their versions and gates, and report.

    A scenario is run once for each combination of its parameters, such as a path of versions. Each of these
    runs is a cell: it has a name, SCENARIO/VALUES, and a cluster of its own. Without SCENARIO the cells are
    those of a profile: `first` is a few for a first look, `full` is all of them. Exits 1 if a cell fails.

    With --real, real programs run in the place of components. With --against-emulated each cell is run with
    them and emulated, and compared step by step; then it exits 1 also if a cell fails emulated, or differs.

    \b
    kubeskew matrix
    kubeskew matrix --profile full --report report
    kubeskew matrix --profile full --report report --resume
    kubeskew matrix --profile full --only 'kep-5004/staged-flips/explicit/*'
    kubeskew matrix mine.yaml other.yaml --jobs 4
    kubeskew matrix --profile full --simulate --dask tcp://127.0.0.1:8786
    kubeskew matrix --profile mine-profile.yaml --list -o json
    kubeskew matrix --profile full --compare
    kubeskew matrix compare report-before report-after
    kubeskew matrix --profile full --shard 1/4 --report report-1
    kubeskew matrix merge report-1 report-2 report-3 report-4 --report report
    kubeskew matrix kep-5004/pairs kep-5004/on-off-on --simulate --prr evidence.md
    kubeskew matrix --profile full --report report --resume --prr evidence.md
    kubeskew matrix mine.yaml --prr evidence.md --prr-gate DRAPartitionableDevices
    kubeskew matrix mine.yaml --binaries ~/builds --real scheduler --against-emulated --report report
    kubeskew matrix mine.yaml --binaries ~/builds --real scheduler,controller-manager --record-real real
    kubeskew matrix mine.yaml --compare-real real
    """
    if scenarios and profile:
        raise UserError("name scenarios or a profile, not both: a profile in a file can list scenarios")
    if compare and record:
        raise UserError("--compare holds outcomes against the record, --record changes it: choose one")
    asked = asked_for(flags)
    check_record(asked, compare or record)
    real = RealOutcomes(record_real, compare_real, add_outcomes)
    real.check(asked)
    review = ReviewFlags(prr, prr_gates)
    review.check()
    if asked.simulate and record:
        raise UserError("--record: the record is of processes; leave out --simulate")
    with processes_for(asked, None) as processes:
        selection = selected(scenarios, profile)
        cells = cells_of(selection, asked)
        if asked.listing:
            return _list(_shard(cells, asked), asked)
        before = read_outcomes(recorded) if compare or record else {}
        assignment = assigned(selection, cells, asked, scenarios, profile)
        finished = run_cells(assignment, asked, None, processes)
    review.write(finished, selection)
    real.write(finished)
    known = all_cells(selection, profile, asked)
    if record:
        left_out = outcomes.record(recorded, finished.cells, known)
        for name in left_out:
            echo(f"kubeskew: {name} failed: its recorded outcome stays as it is", err=True)
    return show_results(
        as_json(finished),
        asked.output,
        asked.report,
        compared(before, finished, known) if compare else None,
        real.compared(finished),
    )


def selected(scenarios: Sequence[str], profile: str | None) -> Selection:
    """Scenarios and profiles that do not exist are a UserError."""
    return checked(
        lambda: matrices.of_scenarios(scenarios) if scenarios else matrices.of_profile(profile or "first")
    )


def assigned(
    selection: Selection,
    cells: Sequence[Cell],
    asked: RunFlags,
    scenarios: Sequence[str],
    profile: str | None,
) -> Assignment:
    words = ["matrix", *scenarios, *(["--profile", profile] if profile else [])]
    return _assignment(selection, cells, asked, words)


def _assignment(
    selection: Selection, cells: Sequence[Cell], asked: RunFlags, words: list[str], at: Sequence[str] = ()
) -> Assignment:
    """Only the shard of the cells is run if there is one. `words` begin the command that repeats the run."""
    command = ["kubeskew", *words, *(word for pattern in asked.only for word in ("--only", pattern))]
    simulated = ["--simulate", "--seed", str(asked.seed or 0)] if asked.simulate else []
    shard = ["--shard", "/".join(map(str, asked.shard))] if asked.shard else []
    flags = [*at, *asked.of_programs]
    whole = repeating(selection, [*command, *simulated], asked.bugs, flags)
    again = repeating(selection, [*command, *shard, *simulated], asked.bugs, flags)
    return Assignment(selection, _shard(cells, asked), again, part_of(cells, asked.shard, whole))


def _check_kubeconfig(kubeconfig: Path, asked: RunFlags) -> None:
    """Raises UserError for a file that no cell could use, and for flags that do not go with it."""
    if asked.dask:
        raise UserError("choose one: --kubeconfig runs on that cluster, --dask on clusters of its workers")
    if asked.resume:
        raise UserError("leave out --resume: nobody knows whether the cluster of --kubeconfig is as it was")
    try:
        load_kubeconfig(kubeconfig).ssl_context()
    except (KubeconfigError, OSError) as error:  # OpenSSL's errors about credentials are OSErrors
        raise UserError(f"--kubeconfig {kubeconfig} cannot be used: {error}") from error


def cells_of(selection: Selection, asked: RunFlags) -> list[Cell]:
    """An empty selection is a UserError."""
    cells = checked(lambda: selection.cells(asked.only))
    if not cells:
        raise UserError(
            f"--only {', '.join(asked.only)}: no cell of {selection.title} has such a name; --list shows them"
        )
    if asked.bugs:
        cells = [replace(cell, scenario=replace(cell.scenario, bugs=asked.bugs)) for cell in cells]
    if programs := asked.programs:
        cells = [replace(cell, scenario=replace(cell.scenario, programs=programs)) for cell in cells]
    if asked.simulate:
        cells = _simulated(cells)
    return cells


def _shard(cells: Sequence[Cell], asked: RunFlags) -> Sequence[Cell]:
    """An empty shard is a UserError."""
    if not asked.shard:
        return cells
    part = matrices.shard(cells, *asked.shard, alike=asked.simulate)
    if not part:
        raise UserError(
            f"--shard {asked.shard[0]}/{asked.shard[1]}: empty, there are {len(cells)} cells in all"
        )
    return part


def _simulated(cells: Sequence[Cell]) -> list[Cell]:
    """Leaves out cells that cannot be simulated and prints their names. Raises UserError if none is left."""
    scripts = [cell.name for cell in cells if cell.uses("script") or cell.uses("command")]
    if scripts:
        why = "`script` and `command` run other programs, which cannot see a simulated cluster"
        echo(f"kubeskew: not simulated: {', '.join(scripts)}: {why}", err=True)
    if len(scripts) == len(cells):
        raise UserError("there is nothing to simulate: leave out --simulate")
    return [cell for cell in cells if cell.name not in scripts]


def _list(cells: Sequence[Cell], asked: RunFlags) -> int:
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

"""Plays a plan of faults in one simulated cell: `kubeskew run CELL --simulate --faults PLAN.json`."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from kubeskew.cli.commands.options import print_json, print_table, show_progress
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.errors import ScenarioError

faults_option = click.option(
    "--faults",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN.json",
    help="Play these faults in a simulated cell, and judge it by the invariants (docs/simulation.md). "
    "Without --seed the cell has the plan's.",
)
_ALONE = ("kubeconfig", "shard", "listing", "report", "resume", "keep", "dask")


def replay(names: Sequence[str], only: Sequence[str], path: Path, flags: Mapping[str, Any]) -> int:
    """Runs the one cell that is named; returns 1 if it failed, broke an invariant, or no fault fired."""
    from kubeskew.simulation.explore.selecting import cells_named
    from kubeskew.simulation.faults.plan import PlanError, load
    from kubeskew.simulation.running import FaultyRun, simulate_with_faults

    if not flags["simulate"]:
        raise UserError("--faults is of simulations: add --simulate, or leave it out")
    if wrong := [name for name in _ALONE if flags.get(name)]:
        flag = "list" if wrong[0] == "listing" else wrong[0]
        raise UserError(f"--{flag}: cannot stand beside --faults; leave one of them out")
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

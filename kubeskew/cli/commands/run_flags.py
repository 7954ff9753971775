"""The flags that `run` and `matrix` share, and what cannot stand side by side."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.cli import completion
from kubeskew.cli.commands.dask import DaskCluster, check_alone, dask_options
from kubeskew.cli.commands.options import report_output_option
from kubeskew.cli.shards import ShardType
from kubeskew.cluster.failures import UserError

F = Callable[..., Any]

_EXPLORATION = "exploration.json"  # as simulation/explore/keeping.py has it, which is slow to import
_REPORT = "report.json"  # as conformance/report.py writes it, before the others
_BESIDE = ("junit.xml", "index.html")


@dataclass(frozen=True, slots=True)
class RunFlags:
    """Holds the flags that `run` and `matrix` share."""

    only: tuple[str, ...]
    shard: tuple[int, int] | None
    listing: bool
    report: Path | None
    resume: bool
    jobs: int
    dask: DaskCluster | None
    keep: bool
    simulate: bool
    seed: int | None
    bugs: dict[str, bool]
    verbose: bool
    output: str


def run_options(command: F) -> F:
    """Adds the flags of `RunFlags`."""
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
            default=None,
            show_default="one per core",
            help="Cells to run side by side.",
        ),
        dask_options,
        click.option("--keep", is_flag=True, help="Keep the state directories, to look at."),
        click.option(
            "--simulate",
            is_flag=True,
            help="Run each cell's cluster in one process and one event loop, in virtual time.",
        ),
        click.option("--seed", type=int, default=None, help="Of a simulation's randomness [default: 0]."),
        bugs_option,
        click.option("-v", "--verbose", is_flag=True, help="Print all that cells do, in lines."),
        report_output_option,
    ):
        command = option(command)
    return command


def asked_for(flags: dict[str, Any]) -> RunFlags:
    """Returns the flags. Raises UserError for those that do not go together."""
    check_alone(flags["dask"], flags["jobs"])
    asked = RunFlags(**{**flags, "jobs": flags["jobs"] or os.cpu_count() or 1})
    if asked.dask and asked.keep:
        raise UserError("--keep: the directories would be on the machines of --dask; leave out one")
    if asked.simulate and asked.keep:
        raise UserError("--keep: a simulation has no state directory that could be looked at; leave it out")
    if asked.seed is not None and not asked.simulate:
        raise UserError("--seed is of simulations: add --simulate, or leave it out")
    if asked.resume and asked.bugs:
        raise UserError("leave out --resume: the report may be of cells with other known bugs")
    if asked.report:
        check_report(asked.report)
    if asked.resume and not asked.report:
        raise UserError(
            "--resume goes on with the run that a report tells of: name its directory by --report"
        )
    return asked


def check_report(directory: Path) -> None:
    """Raises UserError if a report cannot be written to a directory, or would replace what is none.

    It is known before the first cell runs: a run of hours must not end without its report.
    """
    if (directory / _EXPLORATION).exists():
        raise UserError(
            f"--report {directory}: an exploration is kept there, whose report would be lost: "
            "name another directory"
        )
    foreign = [] if (directory / _REPORT).exists() else [n for n in _BESIDE if (directory / n).exists()]
    if foreign:
        raise UserError(
            f"--report {directory}: {foreign[0]} is there, but no {_REPORT}: it is of no report, and would "
            "be lost: name another directory"
        )
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--report {directory}: nothing can be written to {there}: name another directory")

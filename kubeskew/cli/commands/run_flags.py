"""The flags that `run` and `matrix` share, with `--shard` and `--dask`, and their conflicts.

With `--dask ADDRESS` the workers of a Dask cluster take the place of processes of this machine.
"""

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.cli import completion
from kubeskew.cli.commands.options import report_output_option
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs.selection import check_folder, parse_real
from kubeskew.conformance.dealing.cells import files_of
from kubeskew.conformance.dealing.workers import Pool
from kubeskew.conformance.programs import Programs
from kubeskew.conformance.scenario import Cell

F = Callable[..., Any]
BINARIES = "KUBESKEW_BINARIES"

# flag, as of `dask worker` and `dask scheduler` behind its prefix → Dask's name of it for a client, help
_TLS = {
    "--dask-tls-ca-file": ("tls_ca_file", "The CA of the Dask cluster's certificates, PEM."),
    "--dask-tls-cert": ("tls_client_cert", "The client certificate, PEM."),
    "--dask-tls-key": ("tls_client_key", "The client certificate's key, PEM, if it is not in the same file."),
}
_EXPLORATION = "exploration.json"  # as simulation/explore/report.py has it, which is slow to import
_REPORT = "report.json"  # as conformance/report.py writes it, before the others
_OTHER_FILES = ("junit.xml", "index.html")


class ShardType(click.ParamType[tuple[int, int]]):
    """`I/N` is the I-th of N parts."""

    name = "I/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        found = re.fullmatch(r"(\d+)/(\d+)", str(value))
        number, count = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= number <= count:
            self.fail(f"{value!r} is no part such as 1/4", param, ctx)
        return number, count


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """Only TLS files that Dask's configuration lacks are in `tls`."""

    address: str
    tls: Mapping[str, str] = field(default_factory=dict)


def dask_options(command: F) -> F:
    """Folds --dask and its TLS files into one argument of the command, `dask`: a DaskCluster."""

    @functools.wraps(command)
    def folded(*args: Any, dask: str | None, **flags: Any) -> Any:
        tls = {name: flags.pop(_parameter(flag)) for flag, (name, _) in _TLS.items()}
        given = {name: str(path) for name, path in tls.items() if path is not None}
        if given and not dask:
            raise UserError("--dask-tls-… is of a Dask cluster: name its scheduler by --dask tls://HOST:8786")
        return command(*args, dask=DaskCluster(dask, given) if dask else None, **flags)

    made: F = folded
    for flag, (_, what) in reversed(_TLS.items()):
        path = click.Path(exists=True, dir_okay=False, resolve_path=True)
        text = f"With --dask tls://…: {what[0].lower()}{what[1:]} [default: as Dask is configured]"
        made = click.option(flag, metavar="FILE", type=path, help=text)(made)
    return click.option(
        "--dask",
        metavar="ADDRESS",
        help="Run on the workers of the Dask cluster whose scheduler is at this address.",
    )(made)


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


@contextmanager
def dask_pool(cluster: DaskCluster, cells: Sequence[Cell]) -> Iterator[Pool]:
    """Dask is optional: UserError says how to install it."""
    try:
        from kubeskew.conformance.dealing.dask_pool import DaskPool
    except ModuleNotFoundError as error:
        raise UserError(
            f"--dask needs Dask, which is not there (no module {error.name}): pip install 'kubeskew[dask]'"
        ) from error
    with DaskPool(cluster.address, files_of(cells), cluster.tls) as pool:
        yield pool


def check_dask_alone(dask: DaskCluster | None, jobs: int | None) -> None:
    if dask and jobs is not None:
        raise UserError(
            "--jobs is of this machine: leave it out; a Dask worker does as much as it has threads"
        )


@dataclass(frozen=True, slots=True)
class RunFlags:
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
    binaries: Path | None = None
    real: str = ""
    against_emulated: bool = False

    @property
    def programs(self) -> Programs | None:
        """Raises UserError for a component that cannot be real."""
        real = parse_real(self.real) if self.real else []
        if not real or self.binaries is None:
            return None
        folder = str(self.binaries.expanduser().absolute())
        return Programs(folder, tuple(real), self.against_emulated)

    @property
    def of_programs(self) -> list[str]:
        """These flags, to run the same again."""
        programs = self.programs
        if programs is None:
            return []
        both = ["--against-emulated"] if programs.both_ways else []
        return ["--binaries", programs.binaries, "--real", ",".join(programs.real), *both]


def program_options(*, hidden: bool = False) -> list[Callable[[Any], Any]]:
    """Options of real programs. A command that does not have them refuses them, `hidden`, with a reason."""
    return [
        click.option(
            "--binaries",
            type=click.Path(path_type=Path),
            metavar="DIR",
            envvar=None if hidden else BINARIES,
            hidden=hidden,
            help="With --real: the folder of real programs, by version: DIR/1.36/kube-scheduler "
            f"[default: ${BINARIES}].",
        ),
        click.option(
            "--real",
            metavar="COMPONENT,...",
            default="",
            hidden=hidden,
            help="Run real programs in the place of these components: apiserver, scheduler, "
            "controller-manager.",
        ),
    ]


def check_programs(asked: RunFlags) -> None:
    """Raises UserError for a folder without components or the reverse, and for flags that do not go with real
    programs."""
    if asked.against_emulated and not asked.real:
        raise UserError("--against-emulated compares with real programs: name their components by --real")
    if not asked.real:
        if asked.binaries is not None and _is_given("binaries"):
            raise UserError("--binaries has real programs: name the components that take them by --real")
        return
    real = parse_real(asked.real)
    check_folder(str(asked.binaries.expanduser()) if asked.binaries else "", real)
    if asked.against_emulated and not real:
        raise UserError("--against-emulated compares with real programs, and --real none has none")
    if asked.simulate:
        raise UserError("--real: simulations run emulated components alone; leave out --real or --simulate")
    if asked.dask:
        raise UserError("--real: the programs are on this machine; leave out --real or --dask")


def _is_given(parameter: str) -> bool:
    """True of an option of the command line, False of an environment variable."""
    ctx = click.get_current_context(silent=True)
    return ctx is None or ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def run_options(command: F) -> F:
    options: Sequence[Callable[[Any], Any]] = (
        click.option(
            "--only",
            multiple=True,
            metavar="PATTERN",
            shell_complete=completion.cells,
            help="Only cells whose names match a pattern with * and ?; repeatable.",
        ),
        click.option(
            "--shard",
            type=ShardType(),
            metavar="I/N",
            help="Split the cells into N parts, one for each machine, and run only the I-th.",
        ),
        click.option("--list", "listing", is_flag=True, help="List the cells instead of running them."),
        click.option(
            "--report",
            type=click.Path(path_type=Path, file_okay=False),
            help="Write a report into this directory: index.html, report.json, junit.xml.",
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="Keep the results that the directory of --report has already, and run only the cells "
            "that failed "
            "or are missing.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=None,
            show_default="one per core",
            help="The number of cells to run at once.",
        ),
        dask_options,
        click.option("--keep", is_flag=True, help="Keep the clusters' state directories, to look into them."),
        click.option(
            "--simulate",
            is_flag=True,
            help="Simulate each cell's cluster in one process and in virtual time: faster, and the same "
            "each time.",
        ),
        click.option(
            "--seed",
            type=int,
            default=None,
            help="With --simulate: the number that decides everything random [default: 0].",
        ),
        bugs_option,
        *program_options(),
        click.option("-v", "--verbose", is_flag=True, help="Print a line for each step of each cell."),
        report_output_option,
    )
    made: F = command
    for option in options:
        made = option(made)
    return made


def asked_for(flags: dict[str, Any]) -> RunFlags:
    """Flags that do not go together are a UserError."""
    check_dask_alone(flags["dask"], flags["jobs"])
    asked = RunFlags(**{**flags, "jobs": flags["jobs"] or os.cpu_count() or 1})
    if asked.dask and asked.keep:
        raise UserError("--keep: the directories would be on the machines of --dask; leave out one")
    if asked.simulate and asked.keep:
        raise UserError("--keep: a simulation has no state directory that could be looked at; leave it out")
    if asked.seed is not None and not asked.simulate:
        raise UserError("--seed is of simulations: add --simulate, or leave it out")
    if asked.resume and asked.bugs:
        raise UserError("leave out --resume: the report may be of cells with other known bugs")
    check_programs(asked)
    if asked.report:
        check_report(asked.report)
    if asked.resume and not asked.report:
        raise UserError("--resume goes on with the run of a report: name its directory by --report")
    return asked


def check_report(directory: Path) -> None:
    """Raises UserError if a report cannot be written to a directory, or would replace other files.

    Checked before the first cell runs: a run of hours must not end without its report.
    """
    if (directory / _EXPLORATION).exists():
        raise UserError(
            f"--report {directory}: an exploration is kept there, whose report would be lost: "
            "name another directory"
        )
    foreign = [] if (directory / _REPORT).exists() else [n for n in _OTHER_FILES if (directory / n).exists()]
    if foreign:
        raise UserError(
            f"--report {directory}: {foreign[0]} is there, but no {_REPORT}: it is of no report, and would "
            "be lost: name another directory"
        )
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--report {directory}: nothing can be written to {there}: name another directory")

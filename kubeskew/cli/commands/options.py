"""Options that several commands share: the state directory, gates, versions, output."""

import asyncio
import functools
import json
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.gates import parse_overrides
from kubeskew.apimachinery.process.component import VersionParam
from kubeskew.cli import completion, terminal
from kubeskew.cli.terminal import echo, escaped
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.fork_client import component_processes
from kubeskew.cluster.state import StateDir

if TYPE_CHECKING:
    from kubeskew.cluster.cluster import Cluster
    from kubeskew.cluster.programs.selection import ProgramFlags

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

VERSION = VersionParam()


def _take_state_dir(ctx: click.Context, _param: click.Parameter, value: Path | None) -> StateDir:
    if value is not None:
        terminal.note_state_dir(ctx, value)
    return StateDir((value or ctx.obj or Path(".kubeskew")).absolute())


state_dir_option = click.option(
    "--state-dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_take_state_dir,
    help="Directory of the cluster's files (default: ./.kubeskew, or $KUBESKEW_STATE_DIR).",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
report_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "github"]),
    default="table",
    show_default=True,
    help="Output format. github is the table, and marks failures in a pull request of GitHub.",
)
component_option = click.option(
    "--component",
    "components",
    multiple=True,
    metavar="C",
    shell_complete=completion.components,
    help="Only this component (apiserver, controller-manager, scheduler, kubelet, kubelet/NODE); repeatable.",
)


def programs_options(command: F) -> F:
    """Adds --binaries and --real, which arrive as `programs`: a ProgramFlags."""

    @click.option(
        "--binaries",
        type=click.Path(file_okay=False),
        envvar="KUBESKEW_BINARIES",
        metavar="DIR",
        help="Folder of real programs by version, such as DIR/1.36/kube-scheduler (docs/how-to/real.md).",
    )
    @click.option(
        "--real",
        metavar="COMPONENTS",
        help="Components that are real programs of --binaries: apiserver, scheduler, controller-manager, "
        "with commas; none makes them emulated again. It stays with the cluster.",
    )
    @functools.wraps(command)
    def wrapped(binaries: str | None, real: str | None, **rest: Any) -> Any:
        source = click.get_current_context().get_parameter_source("binaries")
        given = source is ParameterSource.COMMANDLINE
        return command(programs=program_flags(binaries or "", real, named=given), **rest)

    return cast("F", wrapped)


def program_flags(binaries: str, real: str | None, *, named: bool) -> "ProgramFlags":
    """`named` means that the folder was given on the command line, and not by the environment."""
    from kubeskew.cluster.programs.selection import ProgramFlags, parse_real

    folder = str(Path(binaries).expanduser().absolute()) if binaries else ""
    return ProgramFlags(folder, None if real is None else parse_real(real), named)


def parse_gates(text: str) -> dict[str, bool]:
    """Parses `A=true,B=false`; the components' versions are checked later. Raises UserError."""
    try:
        return parse_overrides(text)
    except ValueError as error:
        raise UserError(f"feature gates: {error}") from error


def parse_gate_changes(text: str) -> dict[str, bool | None]:
    """Like `parse_gates`, but `A-` is None: no longer set by hand."""
    items = [item.strip() for item in text.split(",")]
    unset = [item for item in items if item.endswith("-")]
    kept = parse_gates(",".join(item for item in items if item not in unset))
    return {**kept, **dict.fromkeys(item[:-1] for item in unset)}


def show_progress(text: str) -> None:
    echo(f"· {terminal.complete_commands(text)}", err=True)


def change(directory: StateDir, work: Callable[["Cluster"], Coroutine[Any, Any, T]], *kinds: str) -> T:
    """Calls `work` with the cluster of a state directory; progress goes to standard error.

    `kinds` are the components that it is going to start: fork servers import their modules meanwhile.
    """
    with component_processes(*kinds) as processes:
        from kubeskew.cluster.cluster import Cluster
        from kubeskew.cluster.platform import Platform

        return run_async(work(Cluster(directory, Platform(SystemClock(), processes), show_progress)))


def change_timed(directory: StateDir, work: Callable[["Cluster"], Coroutine[Any, Any, T]], *kinds: str) -> T:
    clock = SystemClock()
    began = clock.now()
    found = change(directory, work, *kinds)
    show_progress(f"done in {(clock.now() - began).total_seconds():.1f} s")
    return found


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Raises the first of several failures at once.

    SIGTERM interrupts it as Ctrl-C does, so that everything started for it ends.
    """
    results: list[T] = []
    try:
        asyncio.run(_until_terminated(coroutine, results))
        return results[0]
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _until_terminated(coroutine: Coroutine[Any, Any, T], results: list[T]) -> None:
    """Results go into `results`, because asyncio formats a task with its result at its end."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    results.append(await coroutine)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does, so that the work done so far is reported and kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def print_table(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], weights: Sequence[int] = ()
) -> None:
    """Prints rows as aligned columns, as kubectl does; a column's key is its title in lower case.

    Lines are cut to fit a terminal: the widest columns first, one of twice the weight half as much.
    """
    for line in table(columns, rows, weights, terminal.width()):
        click.echo(line)


def table(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], weights: Sequence[int], width: int | None
) -> list[str]:
    """Lines are at most `width` long if the columns can be made narrow enough."""
    cells = [[escaped(str(row.get(column.lower(), ""))) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    widths = terminal.fitted(widths, width, weights)
    return [terminal.row(line, widths) for line in [list(columns), *cells]]

"""`kubeskew explore`: many seeded simulations of cells with faults, and their findings.

Progress is shown by a bar on a terminal, else by a line every few seconds.
"""

import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.clock import SystemClock, deadline
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.cli import completion, live
from kubeskew.cli.commands.options import interrupted_by_sigterm, output_option, print_json, show_progress
from kubeskew.cli.commands.run_flags import check_dask_alone, dask_options, dask_pool, program_options
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import EndedEarlyError, UserError
from kubeskew.conformance.dealing.forked import ForkedPool
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.invariants.findings import FINDINGS, KnownFinding
from kubeskew.conformance.resumption import digest_of_package
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.explore import selection
from kubeskew.simulation.explore.classes import read_entries
from kubeskew.simulation.explore.exploration import Budget, Exploration, Pace, Watcher
from kubeskew.simulation.explore.jobs import RunJob
from kubeskew.simulation.explore.laboratory import Simulations
from kubeskew.simulation.explore.report import Header, Kept, as_html, as_text, holds_another_report
from kubeskew.simulation.faults.plan import Kind

_SECONDS = 5.0  # between two lines
DEFAULT_SEEDS = 100
_SEED = re.compile(r"(\d+)(?:@([0-9a-f]+))?")
_KINDS = tuple(kind.value for kind in Kind)


class PlainLines:
    def __init__(self, due: Callable[[], Callable[[], bool]] = lambda: deadline(_SECONDS)) -> None:
        """`due` starts a wait and returns a function that is true once it is over."""
        self._due = due
        self._is_time = due()

    def say(self, text: str) -> None:
        show_progress(text)

    def pace(self, pace: Pace) -> None:
        if self._is_time():
            show_progress(pace.text)
            self._is_time = self._due()


class Bar:
    def __init__(self, screen: live.Screen) -> None:
        self._screen = screen

    def say(self, text: str) -> None:
        self._screen.line(text)

    def pace(self, pace: Pace) -> None:
        self._screen.whole(pace.wanted, pace.text, pace.done)


@contextmanager
def pace_shown() -> Iterator[Watcher]:
    if not live.is_terminal():
        yield PlainLines()
        return
    with live.screen() as screen:
        yield Bar(screen)


def with_refused_programs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of real programs, which other commands on scenarios have, are a UserError."""

    @functools.wraps(command)
    def checked(*args: Any, binaries: Path | None, real: str, **flags: Any) -> Any:
        if binaries or real:
            flag = "--real" if real else "--binaries"
            raise UserError(f"{flag}: explorations are simulations, which run emulated components alone")
        return command(*args, **flags)

    made: Callable[..., Any] = checked
    for option in program_options(hidden=True):
        made = option(made)
    return made


@click.command()
@click.argument(
    "scenarios",
    nargs=-1,
    required=True,
    metavar="SCENARIO|CELL|FINDING...",
    shell_complete=completion.scenarios,
)
@click.option("--seeds", type=int, metavar="N", help="The number of runs, over all cells [default: 100].")
@click.option("--seconds", type=float, metavar="S", help="Stop after this many seconds.")
@click.option(
    "--seed",
    metavar="S",
    help="Run each cell once, with this seed. The same seed gives the same run, event by event. Findings "
    "write "
    "it as S@BUILD; another BUILD of kubeskew is refused, because there the run would differ.",
)
@click.option(
    "--faults",
    metavar="KIND,...",
    help=f"Inject only faults of these kinds: {', '.join(_KINDS)}; or none.",
)
@bugs_option
@click.option(
    "--until",
    metavar="REGEXP",
    help="Stop at the first finding that matches; its text is `[CLASS] INVARIANT: MESSAGE`.",
)
@click.option(
    "--no-minimize", is_flag=True, help="Report a finding with all faults of its run, which is faster."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write runs and findings into this directory. If it has some already, continue after them.",
)
@click.option(
    "--known",
    type=click.Path(path_type=Path, dir_okay=False),
    default=FINDINGS,
    show_default="conformance/findings.yaml",
    help="The file that lists findings which are known, with their causes.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=None,
    show_default="one per core",
    help="The number of runs at once.",
)
@dask_options
@with_refused_programs
@output_option
def explore(scenarios: tuple[str, ...], known: Path, output: str, **flags: Any) -> int:
    """Run scenarios many times with random faults, and report what went wrong.

    A cell is a scenario with values of its parameters, such as a path of versions (`kubeskew run --help`).
    Each run is a simulation of a cell, with other faults and another order of events. Its seed, a number,
    decides all of them. After a run the rules of `kubeskew check` and the steps of the scenario are checked.
    If something is broken, that is a finding. It is run again with fewer faults, to find those that it needs,
    and reported next to the same run without faults. FINDING is a file that --report has written: it is run
    again. Exits 1 if a finding is a defect, or its cause is not known.

    \b
    kubeskew explore kep-5004/upgrade-downgrade --seeds 200
    kubeskew explore kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35 --seconds 60
    kubeskew explore 'kep-4815/*' --seeds 1000 --dask tcp://127.0.0.1:8786 --report report/explore
    kubeskew explore 'kep-4815/*' --faults crash,lost-answer --report report/explore
    kubeskew explore kep-5004/quota/1.35 --seed 17
    kubeskew explore dra/churn/1.33 --bugs k8s-132334=off
    kubeskew explore report/explore/findings/I09-1a2b3c4d.json
    kubeskew explore my-scenario.yaml --seeds 50 -o json
    """
    check_dask_alone(flags["dask"], flags["jobs"])
    try:
        entries = read_entries(known)
        findings = [name for name in scenarios if name.endswith(".json")]
        if findings:
            _check_alone(scenarios, flags)
            return _show(_replay(Path(scenarios[0]), entries), output)
        kinds, cells = _kinds(flags["faults"]), selection.cells_named(scenarios, flags["bugs"])
        budget = _budget(flags, len(cells))
        return _explore(cells, kinds, entries, budget, {**flags, "output": output}, ", ".join(scenarios))
    except ScenarioError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"--report {flags['report']}: {error.strerror}: {error.filename}") from error


def _explore(
    cells: Sequence[Cell],
    kinds: Sequence[Kind],
    entries: Sequence[KnownFinding],
    budget: Budget,
    flags: dict[str, Any],
    title: str,
) -> int:
    """Explores, prints and reports the findings, also those of an interrupted exploration."""
    origins = [selection.origin_of(cell) for cell in cells]
    kept = None
    if flags["report"] is not None and holds_another_report(flags["report"]):
        raise UserError(
            f"--report {flags['report']}: the report of a run or matrix is there, which would be lost: "
            "name another directory"
        )
    if flags["report"] is not None:
        digests = {origin.cell: origin.digest for origin in origins}
        kept = Kept(flags["report"], Header(digest_of_package().hex(), digests, kinds, flags["bugs"]))
    exploration = None
    try:
        with pace_shown() as watcher, interrupted_by_sigterm():
            laboratory = Simulations(cells, kinds)
            exploration = Exploration(origins, laboratory, entries, SystemClock(), watcher, kept)
            here = nullcontext(ForkedPool(flags["jobs"] or os.cpu_count() or 1))
            with dask_pool(flags["dask"], cells) if flags["dask"] else here as pool:
                exploration.explore(pool, budget)
    except (KeyboardInterrupt, EndedEarlyError):
        if exploration is not None:
            _show(exploration, flags["output"])
        raise
    finally:
        if kept is not None and exploration is not None:
            report = exploration.as_json()
            kept.finish(report, as_html(report, title))
    return _show(exploration, flags["output"])


def _replay(path: Path, entries: Sequence[KnownFinding]) -> Exploration:
    finding, cell = selection.finding_to_replay(path)
    with pace_shown() as watcher:
        exploration = Exploration([finding.origin], Simulations([cell], ()), entries, SystemClock(), watcher)
        job = RunJob(0, finding.seed, plan=finding.plan, steps=finding.steps)
        exploration.explore(ForkedPool(1), Budget(only=[job], minimize=False))
    show_progress(selection.compared_with_finding(finding, exploration))
    return exploration


def _check_alone(scenarios: Sequence[str], flags: dict[str, Any]) -> None:
    """Flags that the finding's file determines already are a UserError."""
    if len(scenarios) > 1:
        raise UserError("name one finding's file, and nothing else")
    for flag in ("seeds", "seconds", "seed", "faults", "bugs", "until", "report", "dask"):
        if flags[flag] not in (None, {}):
            raise UserError(f"--{flag}: a finding's file says what is run; leave it out")


def _budget(flags: dict[str, Any], cells: int) -> Budget:
    seeds, seconds, seed = flags["seeds"], flags["seconds"], flags["seed"]
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds {seeds}: there is nothing to run; give 1 or more")
    if seconds is not None and not seconds > 0:
        raise UserError(f"--seconds {seconds:g}: there is no time to run anything; give more than 0")
    if seed is not None and (seeds is not None or seconds is not None):
        raise UserError("--seed repeats one run: leave out --seeds and --seconds")
    if seeds is None and seconds is None:
        seeds = DEFAULT_SEEDS
    only = [RunJob(cell, _seed(seed)) for cell in range(cells)] if seed is not None else ()
    return Budget(seeds, seconds, only, _pattern(flags["until"]), not flags["no_minimize"])


def _pattern(text: str | None) -> str:
    try:
        return re.compile(text or "").pattern
    except re.error as error:
        raise UserError(f"--until: {text!r} is no regular expression: {error}") from error


def _seed(text: str) -> int:
    """`text` is `S` or `S@BUILD`. Raises UserError if the build is another one than this."""
    found = _SEED.fullmatch(text)
    if not found:
        raise UserError(f"--seed: expected a number such as 7, or 7@BUILD, found {text!r}")
    build = digest_of_package().hex()
    if found[2] and not build.startswith(found[2]):
        raise UserError(
            f"--seed {text}: recorded at build {found[2]}, this is {build[: len(found[2])]}, where the seed"
            f" is another run: check out that commit, or give --seed {found[1]} to run it here"
        )
    return int(found[1])


def _kinds(text: str | None) -> tuple[Kind, ...]:
    """Unknown kinds of faults are a UserError."""
    if text is None:
        return tuple(Kind)
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in _KINDS:
            hint = did_you_mean(name, _KINDS)
            raise UserError(f"--faults: there is no kind {name}; there are {', '.join(_KINDS)}{hint}")
    return tuple(kind for kind in Kind if kind.value in names)


def _show(exploration: Exploration, output: str) -> int:
    report = exploration.as_json()
    if output == "json":
        print_json(report)
    else:
        for finding in report["findings"]:
            echo("\n".join(as_text(finding)))
            echo("")
        echo(exploration.summary)
    return 1 if exploration.failed else 0

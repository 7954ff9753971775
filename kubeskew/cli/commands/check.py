"""`kubeskew check`: the invariants over the log of a cluster."""

from collections.abc import Sequence
from typing import Any

import click

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    state_dir_option,
)
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import ExecutedProcesses
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.evidence.rows import evidence
from kubeskew.conformance.invariants.invariant import Violation
from kubeskew.conformance.invariants.judgement import is_at_rest, judge

QUIET_SECONDS = 10
_LOST = "events-lost"  # an incomplete log cannot be judged

COLUMNS = ["REVISION", "INVARIANT", "NAME", "MESSAGE"]


@click.command()
@state_dir_option
@output_option
@click.option(
    "--quiet-for",
    type=click.FloatRange(0),
    default=QUIET_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Seconds without a change after which the cluster counts as at rest.",
)
def check(directory: StateDir, output: str, quiet_for: float) -> int:
    """Check what must never go wrong in a cluster, such as a device with two owners.

    There are 25 rules, I01 to I25, called invariants (docs/invariants.md). No device is allocated to two
    claims at once (I01), for example, and a pod that fits on a node is scheduled in the end (I04). The rules
    for what must never happen are checked over every write since the cluster was made, and over what its
    nodes recorded. The rules for how things must end are checked only if the cluster is at rest. Exits 1 if
    a rule was broken. The cluster may run meanwhile.

    \b
    kubeskew check
    kubeskew check --quiet-for 0
    kubeskew check -o json
    """
    directory.load()
    try:
        horizon, log = run_async(_read(directory))
    except StorageError as error:
        raise UserError(f"the log cannot be read: {error}") from error
    at_rest = is_at_rest(log, SystemClock().now(), quiet_for)
    found = _judged(directory, log, at_rest=at_rest)
    if output == "json":
        print_json(_document(log, horizon, found, at_rest=at_rest))
    else:
        _print(log, horizon, found, at_rest=at_rest)
    return 1 if found else 0


async def _read(directory: StateDir) -> tuple[int, Sequence[Logged]]:
    async with await LogReader.open(directory.storage_url) as reader:
        for difference in (await reader.replay()).differences:
            if difference.what == _LOST:
                raise DamageError(f"{difference.text}; `kubeskew replay` lists what is wrong")
        return await reader.horizon(), await evidence(reader.events())


def _judged(directory: StateDir, log: Sequence[Logged], *, at_rest: bool) -> list[Violation]:
    platform = Platform(SystemClock(), ExecutedProcesses())
    return run_async(judge(directory, platform, log, _note, at_rest=at_rest))


def _note(text: str) -> None:
    echo(text, err=True)


def _document(
    log: Sequence[Logged], horizon: int, found: Sequence[Violation], *, at_rest: bool
) -> dict[str, Any]:
    return {
        "revision": log[-1].revision if log else 0,
        "events": len(log),
        "compacted": horizon,
        "atRest": at_rest,
        "violations": [
            {
                "invariant": each.code,
                "name": each.name,
                "message": each.message,
                "revision": each.revision,
                "time": each.time,
            }
            for each in found
        ],
    }


def _print(log: Sequence[Logged], horizon: int, found: Sequence[Violation], *, at_rest: bool) -> None:
    document = _document(log, horizon, found, at_rest=at_rest)
    if found:
        print_table(COLUMNS, document["violations"])
        click.echo()
    since = f" since revision {horizon}, to which it is compacted" if horizon else ""
    click.echo(f"{len(log)} events{since}: {len(found)} violations of the invariants.")
    if not at_rest:
        click.echo("The cluster is not at rest, so that only what must never happen was judged.", err=True)
        click.echo("Wait a little, or give --quiet-for 0.", err=True)

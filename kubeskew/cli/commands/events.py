"""`kubeskew events`: the writes in the log, with user, component and version."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

import click

from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.apimachinery.known_names import all_names, did_you_mean, meant
from kubeskew.apiserver.storage.interfaces import CompactedError, StorageError
from kubeskew.cli import completion, terminal
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    show_progress,
    state_dir_option,
)
from kubeskew.cli.events import EventFilter, RowFilter, check_verbs, events_since, parse_bound
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.rows import Row

COLUMNS = ["REVISION", "TIME", "VERB", "OBJECT", "BY", "USER", "SERVER"]
_WIDTHS = [8, 12, 8, 56, 30, 36, 6]  # of rows that arrive one by one
_WHOLE = 100  # the weight of a column that stays as it is while another can be made narrower
_WEIGHTS = [_WHOLE, _WHOLE, _WHOLE, 3, 2, 1, 2]  # of the columns on a terminal
_NARROW = 120  # a terminal of fewer columns shows neither user nor server
_FEW = len(COLUMNS) - 2  # columns of a narrow terminal


@click.command()
@state_dir_option
@output_option
@click.option("-n", "--namespace", default="", help="Only objects of this namespace.")
@click.option("--name", default="", help="Only objects of this name.")
@click.option("--user", default="", help="Only writes of this user.")
@click.option(
    "--verb",
    "verbs",
    multiple=True,
    help="Only rows of this verb: create, update, delete, started, …; repeatable.",
)
@click.option(
    "--component",
    "components",
    multiple=True,
    metavar="C",
    help="Only rows of this component: apiserver, scheduler, kubelet/NODE, …; repeatable.",
)
@click.option("--since", metavar="REV|TIME", help="Only after this revision, or from this time on.")
@click.option("--until", metavar="REV|TIME", help="Only up to this revision, or this time.")
@click.option("-f", "--follow", is_flag=True, help="Print new rows as they come, until Ctrl-C.")
@click.option(
    "--where",
    metavar="CEL",
    help="Only rows for which this CEL expression is true; its variables are the fields of -o json.",
)
@click.argument("resource", required=False, shell_complete=completion.resources)
def events(
    directory: StateDir,
    output: str,
    namespace: str,
    name: str,
    user: str,
    verbs: tuple[str, ...],
    components: tuple[str, ...],
    since: str | None,
    until: str | None,
    follow: bool,
    where: str | None,
    resource: str | None,
) -> None:
    """List every write to the API: what, when, by which component at which version.

    Starts and ends of components and changes of their versions and gates are listed, too. RESOURCE limits the
    list to one resource, written as for kubectl: pods, po, Pod or deployments.apps. In the values of --name,
    --user and --component `*` stands for any text. A time is in UTC: a time of day as in the list (17:30:05),
    a date and time (2026-01-31T17:30:05Z), or a duration before now (5m). On a terminal long lines are cut,
    and one of less than 120 columns shows neither USER nor SERVER; `-o json` shows everything.

    \b
    kubeskew events
    kubeskew events --since 100 --until 200 pods -n default
    kubeskew events --since 5m --component scheduler --component kubelet/node-1
    kubeskew events --verb delete --user 'system:node:*'
    kubeskew events --follow resourceclaims -o json
    kubeskew events --where 'verb == "update" && by.startsWith("kube-scheduler ")'
    """
    expression = RowFilter(where) if where is not None else None
    clock = SystemClock()
    chosen = EventFilter(
        *(namespace, name, user, check_verbs(verbs), components),
        *(parse_bound(since, "--since", clock.now()), parse_bound(until, "--until", clock.now())),
    )
    _check_bounds(chosen, follow=follow)
    known = [*directory.load().components()]
    start = chosen.since if isinstance(chosen.since, int) else 0
    found = _rows(directory, start, resource, chosen, expression, clock if follow else None)
    try:
        if not run_async(_follow(found, output) if follow else _list(found, output)):
            _report_unknown(components, known)
    except KeyboardInterrupt:
        return
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error
    except CompactedError as error:
        raise UserError(
            f"--since: revision {error.asked} is compacted: the log begins after revision {error.horizon}"
        ) from error


def _check_bounds(chosen: EventFilter, *, follow: bool) -> None:
    if follow and chosen.until is not None:
        raise UserError("--follow does not end: leave it out, or --until")
    since, until = chosen.since, chosen.until
    revisions = isinstance(since, int) and isinstance(until, int) and until < since
    moments = isinstance(since, datetime) and isinstance(until, datetime) and until < since
    if revisions or moments:
        raise UserError("--until is before --since: nothing can be between them")


async def _rows(
    directory: StateDir,
    since: int,
    resource: str | None,
    chosen: EventFilter,
    expression: RowFilter | None,
    follow: Clock | None,
) -> AsyncGenerator[Row, None]:
    """With a clock, rows are followed until the cluster has another log."""
    until = chosen.until if isinstance(chosen.until, int) else None
    url = directory.storage_url
    rows = events_since(
        *(url, since, resource), until=until, follow=follow, is_current=lambda: directory.storage_url == url
    )
    async with aclosing(rows) as found:
        async for row in found:
            if chosen.takes(row) and (expression is None or expression.takes(row)):
                yield row


def _report_unknown(components: Sequence[str], known: Sequence[str]) -> None:
    for name in components:
        if "*" not in name and not meant(name, known):
            hint = did_you_mean(name, all_names(known))
            show_progress(f"--component {name}: nothing is of it; the cluster has {', '.join(known)}{hint}")


async def _list(found: AsyncGenerator[Row, None], output: str) -> bool:
    """False without any rows."""
    async with aclosing(found):
        rows = [row async for row in found]
    if output == "json":
        print_json(rows)
    else:
        limit = terminal.width()
        columns = _columns(limit)
        print_table(columns, [_short(row, limit) for row in rows], _WEIGHTS[: len(columns)])
    return bool(rows)


async def _follow(found: AsyncGenerator[Row, None], output: str) -> bool:
    """Prints rows as they arrive, in columns of usual width, because later rows are unknown.

    Always True, as if there were rows: nothing is reported as missing.
    """
    limit = terminal.width()
    columns = _columns(limit)
    widths, weights = _WIDTHS[: len(columns)], _WEIGHTS[: len(columns)]
    if output != "json":
        click.echo(terminal.row(columns, terminal.fitted(widths, limit, weights)))
    async with aclosing(found):
        async for row in found:
            if output == "json":
                click.echo(json.dumps(row))
            else:
                short = _short(row, limit)
                cells = [str(short[column.lower()]) for column in columns]
                usual = [max(len(c), w) if limit is None else w for c, w in zip(cells, widths, strict=True)]
                click.echo(terminal.row(cells, terminal.fitted(usual, limit, weights)))
    return True


def _columns(limit: int | None) -> list[str]:
    return COLUMNS if limit is None or limit >= _NARROW else COLUMNS[:_FEW]


def _short(row: dict[str, Any], limit: int | None) -> dict[str, Any]:
    """People need only the time of day; on a terminal the resource is shortened to its plural, which leaves
    room for the name.
    """
    resource, _, name = row["object"].partition(" ")
    if limit is not None:
        resource = resource.partition(".")[0]
    return {**row, "time": row["time"][11:23], "object": f"{resource} {name}".rstrip()}

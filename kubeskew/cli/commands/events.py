"""`kubeskew events`: who wrote what at which version."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import click

from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.apiserver.storage.failures import CompactedError, StorageError
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    state_dir_option,
)
from kubeskew.cli.history import events_since
from kubeskew.cli.row_filter import RowFilter
from kubeskew.cli.terminal import escaped
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.reading import Row

COLUMNS = ["REVISION", "TIME", "VERB", "OBJECT", "BY", "USER", "SERVER"]


@click.command()
@state_dir_option
@output_option
@click.option(
    "--since", type=click.IntRange(0), default=0, show_default=True, help="Only after this revision."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("--where", metavar="CEL", help="Only rows of which an expression over their fields is true.")
@click.argument("resource", required=False)
def events(
    directory: StateDir, output: str, since: int, follow: bool, where: str | None, resource: str | None
) -> None:
    """List the log: what was written, by which component at which version, and when components came and went.

    RESOURCE limits it to one, named as kubectl takes it: plural, singular, short name or kind, with the group
    behind a dot where that is needed. The fields of a row are those that `-o json` shows.

    \b
    kubeskew events
    kubeskew events --since 100 pods
    kubeskew events --follow resourceclaims -o json
    kubeskew events --where 'verb == "update" && by.startsWith("kube-scheduler ")'
    """
    chosen = RowFilter(where) if where is not None else None
    directory.load()
    found = _rows(
        directory,
        since,
        resource,
        chosen,
        SystemClock() if follow else None,
    )
    try:
        run_async(_follow(found, output) if follow else _list(found, output))
    except KeyboardInterrupt:
        return
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error
    except CompactedError as error:
        raise UserError(f"--since {error.asked}: the log begins after revision {error.horizon}") from error


async def _rows(
    directory: StateDir, since: int, resource: str | None, chosen: RowFilter | None, follow: Clock | None
) -> AsyncGenerator[Row, None]:
    """Yields the rows that are `chosen`; with a clock to `follow`, it does not end."""
    async with aclosing(events_since(directory.storage_url, since, resource, follow=follow)) as found:
        async for row in found:
            if chosen is None or chosen.takes(row):
                yield row


async def _list(found: AsyncGenerator[Row, None], output: str) -> None:
    async with aclosing(found):
        rows = [row async for row in found]
    if output == "json":
        print_json(rows)
    else:
        print_table(COLUMNS, [_short(row) for row in rows])


async def _follow(found: AsyncGenerator[Row, None], output: str) -> None:
    async with aclosing(found):
        async for row in found:
            if output == "json":
                click.echo(json.dumps(row))
            else:
                short = _short(row)
                click.echo("   ".join(escaped(str(short[column.lower()])) for column in COLUMNS))


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Shortens a row's time to that of the day, which is enough for people."""
    return {**row, "time": row["time"][11:23]}

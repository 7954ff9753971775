"""`kubeskew replay` and `kubeskew repair`, which compare the log with the table of objects, and
rebuild both.
"""

from collections.abc import Sequence
from typing import Any

import click

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.durable_files import damaged_path
from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.integrity import Difference, Repair, Replay
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.cli import terminal
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    state_dir_option,
)
from kubeskew.cluster import processes
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir, write_secret

COLUMNS = ["REVISION", "WHAT", "OBJECT", "DETAILS"]


@click.command()
@state_dir_option
@output_option
def replay(directory: StateDir, output: str) -> int:
    """Check that the log and the stored objects agree.

    The cluster's data are a log of all writes and a table of the objects that they made. The log is replayed
    from its beginning, and the result compared with the table. Prints the SHA-256 of both, and every
    difference: objects that are missing, unknown or not as the log has them, writes that are damaged or gone.
    Exits 1 if there is any. The cluster may run meanwhile.

    \b
    kubeskew replay
    kubeskew replay -o json
    """
    directory.load()
    try:
        result = run_async(_replayed(directory))
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error
    if output == "json":
        print_json(_document(result))
    else:
        _print(result)
    return 1 if result.differences else 0


async def _replayed(directory: StateDir) -> Replay:
    async with await LogReader.open(directory.storage_url) as reader:
        return await reader.replay()


def _document(result: Replay) -> dict[str, Any]:
    metadata = result.metadata
    return {
        "store": metadata.store_id,
        "revision": result.revision,
        "events": result.events,
        "compacted": metadata.compacted,
        "objects": len(result.objects),
        "replayed": f"sha256:{result.replayed_hash}",
        "projection": f"sha256:{result.projection_hash}",
        "equal": not result.differences,
        "lost": [{"first": first, "last": last} for first, last in metadata.lost],
        "damaged": sorted(metadata.damaged),
        "differences": _rows(result.differences),
    }


def _rows(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    return [_row(difference) for difference in differences]


def _row(difference: Difference) -> dict[str, Any]:
    key = difference.key
    return {
        "revision": difference.revision,
        "what": difference.what,
        "resource": key.resource if key else "",
        "namespace": key.namespace if key else "",
        "name": key.name if key else "",
        "details": difference.text,
    }


def _print(result: Replay) -> None:
    click.echo(f"store       {result.metadata.store_id or '-'}")
    click.echo(f"revision    {result.revision}")
    click.echo(f"events      {result.events}{_forgotten(result)}")
    click.echo(f"objects     {len(result.objects)}")
    click.echo(f"replayed    sha256:{result.replayed_hash}")
    click.echo(f"projection  sha256:{result.projection_hash}")
    if not result.differences:
        click.echo("The log replays to the table of objects.")
        return
    click.echo()
    _print_differences(result.differences)
    hint = "With the cluster down, `kubeskew repair --from-log` rebuilds the table from the log."
    click.echo(f"\n{terminal.complete_commands(hint)}", err=True)


def _forgotten(result: Replay) -> str:
    metadata = result.metadata
    notes = [f"compacted at {metadata.compacted}"] if metadata.compacted else []
    ranges = [str(first) if first == last else f"{first}-{last}" for first, last in metadata.lost]
    notes += [f"lost before a repair: {', '.join(ranges)}"] if ranges else []
    damaged = ", ".join(map(str, sorted(metadata.damaged)))
    notes += [f"damaged before a repair: {damaged}"] if damaged else []
    return f" ({'; '.join(notes)})" if notes else ""


def _print_differences(differences: Sequence[Difference]) -> None:
    rows = _rows(differences)
    for row in rows:
        place = "/".join(filter(None, (row["namespace"], row["name"])))
        row["object"] = f"{row['resource']} {place}".strip() or "-"
    print_table(COLUMNS, rows)


@click.command()
@state_dir_option
@output_option
@click.option("--from-log", is_flag=True, help="Rebuild the table of objects from the log.")
def repair(directory: StateDir, output: str, from_log: bool) -> None:
    """Rebuild a damaged database from its log, while the cluster is down.

    Every write that is left goes into a new database, with the objects that result; the damaged one is kept
    next to it. A damaged write is restored only if the table of objects still has it. Writes that the log
    has lost are listed and stay lost: an object whose last write is damaged cannot be read, and the
    revisions that are missing are not used again.

    \b
    kubeskew down
    kubeskew repair --from-log
    kubeskew up
    """
    if not from_log:
        raise UserError("say what to repair from: `kubeskew repair --from-log`")
    directory.load()
    with directory.locked():
        state = directory.load()
        running = [p.name for p in state.processes.values() if processes.alive(p.pid, p.birth)]
        if running:
            raise ClusterError(f"the cluster runs ({', '.join(running)}): stop it with `kubeskew down` first")
        try:
            result = _rebuilt(directory)
        except StorageError as error:
            raise ClusterError(str(error)) from error
    _print_repair(result, output)


def _rebuilt(directory: StateDir) -> Repair:
    """Another URL of the rebuilt log is written to the state directory."""
    before = directory.storage_url
    there, result = run_async(SQLStorage().repair(before, SystemClock().now()))
    if there != before:
        write_secret(damaged_path(directory.storage_file), before)
        write_secret(directory.storage_file, there)
    return result


def _print_repair(result: Repair, output: str) -> None:
    if output == "json":
        print_json(
            {
                "revision": result.revision,
                "events": result.events,
                "objects": result.objects,
                "damagedDatabase": result.kept,
                "healed": _rows(result.healed),
                "lost": _rows(result.lost),
            }
        )
        return
    click.echo(f"Rebuilt {result.objects} objects from {result.events} events, up to {result.revision}.")
    click.echo(f"The damaged database is kept as {result.kept}.")
    if result.healed:
        click.echo("\nPut right from the table of objects, which had what was written:\n")
        _print_differences(result.healed)
    if result.lost:
        click.echo("\nLost for good:\n")
        _print_differences(result.lost)

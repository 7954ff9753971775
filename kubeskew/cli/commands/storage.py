"""Commands on stored objects: `kubeskew storage audit` and `storage migrate`."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient, user_agent
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.apiserver.storage.failures import StorageError
from kubeskew.apiserver.storage.reading import LogReader
from kubeskew.apiserver.storage.records import Entry
from kubeskew.cli.commands.options import (
    VERSION,
    output_option,
    print_json,
    print_table,
    run_async,
    show_progress,
    state_dir_option,
)
from kubeskew.cli.storage.audit import AuditFinding, audit
from kubeskew.cli.storage.migration import Migrated, migrate
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir

COLUMNS = ["WHAT", "OBJECT", "STORED AS", "DETAILS"]


@click.group()
def storage() -> None:
    """Say what another version would make of the stored objects, or write them anew.

    \b
    kubeskew storage audit --for 1.33
    kubeskew storage migrate
    """


@storage.command("audit")
@state_dir_option
@output_option
@click.option("--for", "version", type=VERSION, required=True, help="The version of the API server to come.")
@click.option(
    "--feature-gates", "gates", default="", metavar="A=true,B=false", help="Its gates, set by hand."
)
def audit_command(directory: StateDir, output: str, version: Version, gates: str) -> int:
    """Say which stored objects an API server of another version cannot read, and what others would lose.

    `unreadable`: gets and lists fail. `lost`: fields that it does not know, gone with its next write.
    `changed`: values that it reads as others. `unserved`: nobody sees the object. Custom resources are left
    out. Exits 1 if there is anything. The cluster may run or be down; nothing is changed.

    \b
    kubeskew storage audit --for 1.33
    kubeskew storage audit --for 1.25+kep3063 --feature-gates DynamicResourceAllocation=true -o json
    """
    directory.load()
    try:
        chosen = FeatureGates.parse(version, gates)
    except ValueError as error:
        raise UserError(f"feature gates: {error}") from error
    found = audit(_entries(directory), version, chosen)
    if output == "json":
        print_json([_row(each) for each in found])
        return 1 if found else 0
    rows = [
        {
            "what": each.what,
            "object": " ".join((each.key.resource, each.key.path)),
            "stored as": each.stored,
            "details": "; ".join(each.details),
        }
        for each in found
    ]
    if rows:
        print_table(COLUMNS, rows)
    counts = Counter(each.what for each in found)
    listed = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing"
    click.echo(f"For an API server {version}: {listed}.", err=True)
    if counts:
        click.echo("Delete or change these objects before you move, or keep the API server.", err=True)
    return 1 if found else 0


def _entries(directory: StateDir) -> Sequence[Entry]:
    async def read() -> Sequence[Entry]:
        async with await LogReader.open(directory.storage_url) as reader:
            return await reader.entries()

    try:
        return run_async(read())
    except StorageError as error:
        raise ClusterError(f"cannot read the store: {error}") from error


def _row(found: AuditFinding) -> dict[str, Any]:
    return {
        "what": found.what,
        "resource": found.key.resource,
        "namespace": found.key.namespace,
        "name": found.key.name,
        "revision": found.revision,
        "storedAs": found.stored,
        "details": list(found.details),
    }


@storage.command("migrate")
@state_dir_option
@output_option
@click.argument("resources", nargs=-1)
def migrate_command(directory: StateDir, output: str, resources: tuple[str, ...]) -> int:
    """Write every stored object anew, in the version and with the fields of the API server that runs.

    It puts each object as it is, as the storage version migrator does; what already is as the server would
    write it stays untouched. RESOURCES limit it (plural or plural.group). Exits 1 if an object failed.

    \b
    kubeskew storage migrate
    kubeskew storage migrate resourceclaims.resource.k8s.io -o json
    """
    directory.load()
    client_agent = user_agent("kubeskew", DEFAULT_VERSION)

    async def run() -> list[Migrated]:
        client = APIClient.from_kubeconfig(directory.kubeconfig, client_agent)
        try:
            return await migrate(client, resources, show_progress)
        finally:
            await client.close()

    try:
        found = run_async(run())
    except CONNECTION_ERRORS as error:
        raise UserError(f"the cluster does not run ({error}): start it with `kubeskew up`") from error
    rows = [
        {
            "resource": each.resource,
            "objects": each.objects,
            "rewritten": each.rewritten,
            "failed": each.failed,
        }
        for each in found
    ]
    if output == "json":
        print_json(rows)
    else:
        counted = [{**row, "failed": len(each.failed)} for row, each in zip(rows, found, strict=True)]
        print_table(["RESOURCE", "OBJECTS", "REWRITTEN", "FAILED"], counted)
        for each in found:
            for failure in each.failed:
                click.echo(failure, err=True)
    return 1 if any(each.failed for each in found) else 0

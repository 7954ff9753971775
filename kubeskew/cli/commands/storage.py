"""`kubeskew storage audit` and `storage migrate`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from kubeskew.apimachinery.catalogue import parse_runtime_config
from kubeskew.apimachinery.catalogue.served_resources import check_for_any_release
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient, user_agent
from kubeskew.apimachinery.gates import parse_overrides
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.cli import completion
from kubeskew.cli.commands.options import (
    VERSION,
    output_option,
    print_json,
    print_table,
    run_async,
    show_progress,
    state_dir_option,
)
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import State, StateDir
from kubeskew.conformance.storage.migration import Migrated, migrate
from kubeskew.conformance.storage.nodes import KeptNode, kept_nodes
from kubeskew.conformance.storage.way import Kubelets, Move, Present, StepFinding, audit_way, steps_of

COLUMNS = ["WHAT", "OBJECT", "STORED AS", "DETAILS", "BEFORE"]


@click.group()
def storage() -> None:
    """Check how another version would read the stored objects, or rewrite them.

    \b
    kubeskew storage audit --for 1.33
    kubeskew storage audit --to 1.26
    kubeskew storage migrate
    """


@storage.command("audit")
@state_dir_option
@output_option
@click.option("--for", "version", type=VERSION, help="The version to go to in one step.")
@click.option(
    "--to", "target", type=VERSION, help="The version to go to minor by minor: each step is checked."
)
@click.option(
    "--feature-gates",
    "gates",
    shell_complete=completion.gates,
    default="",
    metavar="A=true,B=false",
    help="Feature gates to turn on or off at that version, besides those of the cluster.",
)
@click.option(
    "--runtime-config",
    default="",
    metavar="API=true,…",
    help="API versions to serve or not to serve at that version [default: as the cluster does].",
)
def audit_command(
    directory: StateDir,
    output: str,
    version: Version | None,
    target: Version | None,
    gates: str,
    runtime_config: str,
) -> int:
    """List stored objects that another version cannot read, and fields that it would lose.

    WHAT is one of these. `unreadable`: gets and lists of the object fail. `lost`: the version does not know
    some fields, and its next write drops them. `changed`: it reads some values differently. `refused`: it
    reads the object, and refuses updates of it. `unserved`: it has no API for the object. `webhook`: it can
    read the custom resource only if the conversion webhook answers, which is not called here. `undrained`:
    the node's kubelet cannot read a file that the kubelet of now has written, and does not start.

    BEFORE says what to do about it before the move. With --to each step assumes that this was done for the
    steps before. Gates and APIs are those of the cluster, as far as the version has them. Kubelets' files are
    read if they are in the state directory. Exits 1 if anything is found. The cluster may run or be down;
    nothing is changed.

    \b
    kubeskew storage audit --for 1.33
    kubeskew storage audit --to 1.37 -o json
    kubeskew storage audit --for 1.25+kep3063 --feature-gates DynamicResourceAllocation=true -o json
    """
    wanted = version or target
    if wanted is None or (version and target):
        raise click.UsageError("give one of --for and --to")
    state = directory.load()
    nodes = kept_nodes(directory)
    found = _audited(directory, state, nodes, wanted, gates, runtime_config, by_minor=target is not None)
    looked_at = {node.config.name for node in nodes}
    unseen = ", ".join(sorted({*_kubelets(state)} - looked_at))
    if unseen:
        click.echo(f"Not looked at: the files of {unseen}, of which there are none here.", err=True)
    if output == "json":
        print_json([_row(each) for each in found])
        return 1 if found else 0
    rows = [
        {
            "for": str(each.to),
            "what": each.found.what,
            "object": " ".join((each.found.key.resource, each.found.key.path)),
            "stored as": each.found.stored,
            "details": "; ".join(each.found.details),
            "before": each.advice,
        }
        for each in found
    ]
    if rows:
        print_table(COLUMNS if target is None else ["FOR", *COLUMNS], rows)
    counts = Counter(each.found.what for each in found)
    listed = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing"
    place = f"For an API server {version}" if version else f"On the way to {target}"
    click.echo(f"{place}: {listed}.", err=True)
    if counts:
        click.echo("Delete or change these objects before you move, or keep the API server.", err=True)
    return 1 if found else 0


def _audited(
    directory: StateDir,
    state: State,
    nodes: Sequence[KeptNode],
    target: Version,
    gates: str,
    runtime_config: str,
    *,
    by_minor: bool,
) -> list[StepFinding]:
    servers = state.of_kind("apiserver")
    oldest = min(servers, key=lambda server: Version.parse(server.version))
    there = Present(
        *(Version.parse(oldest.version).release, oldest.gates, state.runtime_config, _kubelets(state))
    )
    try:
        served = parse_runtime_config(runtime_config) if runtime_config else None
        check_for_any_release(served or {})
        steps = steps_of(there, Move(target, by_minor, parse_overrides(gates), served))
    except ValueError as error:
        raise UserError(str(error)) from error
    return audit_way(_entries(directory), *steps, nodes)


def _kubelets(state: State) -> Kubelets:
    return {node: process.feature_gates for process in state.of_kind("kubelet") for node in process.nodes}


def _entries(directory: StateDir) -> Sequence[Entry]:
    async def read() -> Sequence[Entry]:
        async with await LogReader.open(directory.storage_url) as reader:
            return await reader.entries()

    try:
        return run_async(read())
    except StorageError as error:
        raise ClusterError(f"cannot read the store: {error}") from error


def _row(step: StepFinding) -> dict[str, Any]:
    found = step.found
    return {
        "for": str(step.to),
        "what": found.what,
        "resource": found.key.resource,
        "namespace": found.key.namespace,
        "name": found.key.name,
        "revision": found.revision,
        "storedAs": found.stored,
        "details": list(found.details),
        "fields": [asdict(each) for each in found.fields],
        "before": {"at": str(step.at), "do": step.do, "advice": step.advice},
    }


@storage.command("migrate")
@state_dir_option
@output_option
@click.argument("resources", nargs=-1, shell_complete=completion.resources)
def migrate_command(directory: StateDir, output: str, resources: tuple[str, ...]) -> int:
    """Write every stored object again, in the version and with the fields of the API server that runs.

    Each object is updated without changes, as by the storage version migrator; objects already stored in that
    form stay untouched. RESOURCES limit it (plural or plural.group). Exits 1 if an object failed.

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

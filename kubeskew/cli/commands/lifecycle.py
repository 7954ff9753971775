"""`kubeskew up` and `kubeskew down`."""

from collections.abc import Collection
from pathlib import Path

import click

from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.urls import database_of, without_password
from kubeskew.cli import completion, hints
from kubeskew.cli.commands.options import VERSION, change_timed, parse_gates, show_progress, state_dir_option
from kubeskew.cluster.clusterfile.keys import LIKE
from kubeskew.cluster.config import DEFAULT_NODES, ClusterSpec, check_storage, load, numbered_nodes
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.planning import disagreements
from kubeskew.cluster.skew import UPGRADE_ORDER
from kubeskew.cluster.state import StateDir


@click.command()
@state_dir_option
@click.option("--version", type=VERSION, help="Kubernetes version of every component [default: 1.36].")
@click.option("--nodes", type=click.IntRange(0), help="How many fake nodes [default: 3].")
@click.option(
    "--feature-gates",
    shell_complete=completion.gates,
    default="",
    metavar="A=true,B=false",
    help="Feature gates of every component.",
)
@bugs_option
@click.option(
    "--ha", "servers", type=click.IntRange(1, 9), help="How many API servers [default: 1, or the file's]."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API server, or the one that several share [default: a free one].",
)
@click.option(
    "--like",
    type=click.Choice(LIKE),
    help="With a control-plane node, its static pods, CoreDNS and kube-proxy, as kind makes them; --nodes 0: "
    "that node alone, which takes pods, as kind's own default.",
)
@click.option(
    "--storage",
    default="",
    metavar="URL",
    help="Where the log is: postgresql://USER@HOST/DATABASE [default: a file in the state directory].",
)
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="A cluster file.")
def up(
    directory: StateDir,
    version: Version | None,
    nodes: int | None,
    feature_gates: str,
    bugs: dict[str, bool],
    servers: int | None,
    port: int,
    like: str | None,
    storage: str,
    config: Path | None,
) -> None:
    """Start a cluster in the background and return when it is ready.

    A cluster that is in the state directory already is picked up as it was left, also after a crash.

    \b
    kubeskew up
    kubeskew up --version 1.35 --nodes 1 --feature-gates DRAExtendedResource=true
    kubeskew up --version 1.33.5 --bugs k8s-132334=off
    kubeskew up --like kind --nodes 2
    kubeskew up --storage postgresql://kubeskew@db.example.com/kubeskew
    kubeskew up --config cluster.yaml
    """
    if directory.rewind_interrupted():
        from kubeskew.cluster.branching.rewind import resume

        resume(directory, show_progress)
    base = load(config) if config else ClusterSpec(nodes=numbered_nodes(DEFAULT_NODES))
    spec = base.with_flags(
        *(version, parse_gates(feature_gates), nodes, servers, port, bugs, like or ""),
        check_storage(storage or None, "--storage"),
    )
    if directory.exists():
        given = {
            "version": version or config,
            "gates": feature_gates or config,
            "bugs": bugs or config,
            "nodes": config,
            "count": nodes is not None,
            "servers": servers or config,
            "port": port,
            "like": like,
            "metrics": config,
        }
        _check_agreement(directory, spec, {name for name, said in given.items() if said})
        _check_storage(directory, spec)
    change_timed(directory, lambda cluster: cluster.up(spec), *UPGRADE_ORDER)
    click.echo(f"The cluster is ready. Use it with:\n\n  export KUBECONFIG={directory.kubeconfig.absolute()}")
    click.echo(hints.complete("  kubectl get nodes\n\nStop it with `kubeskew down`."))


def _check_agreement(directory: StateDir, spec: ClusterSpec, given: Collection[str]) -> None:
    """Raises UserError if the cluster that is there is another than the one asked for."""
    found = disagreements(directory.load(), spec, given)
    if found:
        raise UserError(
            f"there is another cluster in {directory.path} already: {'; '.join(found)}. Change it with "
            "upgrade, downgrade or gates, pick it up as it is with `kubeskew up` alone, "
            "or remove it with `kubeskew down --purge`"
        )


def _check_storage(directory: StateDir, spec: ClusterSpec) -> None:
    """Raises UserError if the log of the cluster that is there is in another database than asked for."""
    url = directory.storage_url
    if spec.storage and database_of(spec.storage) != database_of(url):
        raise UserError(
            f"the log of the cluster in {directory.path} is at {without_password(url)}, not at "
            f"{without_password(spec.storage)}: leave --storage out, or name another --state-dir"
        )


@click.command()
@state_dir_option
@click.option("--purge", is_flag=True, help="Remove the cluster's data too: the log, credentials and all.")
def down(directory: StateDir, purge: bool) -> None:
    """Stop the cluster; its data stays unless --purge is given.

    \b
    kubeskew down
    kubeskew down --purge
    """
    change_timed(directory, lambda cluster: cluster.down(purge=purge))

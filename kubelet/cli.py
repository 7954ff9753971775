"""`kubeskew kubelet`: the fake node agent of one or many nodes, in the foreground."""

from pathlib import Path
from typing import Any

import click

from apimachinery.component import ComponentContext, ComponentOptions, common_options, run_component

_FILE = click.Path(exists=True, dir_okay=False)


@click.command(name="kubelet")
@common_options
@click.option(
    "--nodes-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="YAML or JSON list of the nodes to host; read again on SIGHUP.",
)
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for the nodes' state: containers, checkpoints, CDI specs.",
)
@click.option(
    "--runtime-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Short directory for the nodes' sockets, whose paths end at 108 bytes; by default --root-dir.",
)
@click.option("--tls-cert-file", type=_FILE, default=None, help="The certificate of the nodes' servers.")
@click.option("--tls-private-key-file", type=_FILE, default=None, help="Its key.")
@click.option("--client-ca-file", type=_FILE, default=None, help="Who signs the API server's certificate.")
def kubelet(
    options: ComponentOptions,
    nodes_file: Path,
    root_dir: Path,
    runtime_dir: Path | None,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    **_: Any,
) -> None:
    """Run the kubelets of the nodes in a file.

    \b
    kubeskew kubelet --kubeconfig .kubeskew/kubeconfig --nodes-file nodes.yaml --root-dir kubelet
    """
    from kubelet.host import Host
    from kubelet.node_config import NodesFileError, load_nodes
    from kubelet.server.listening import Credentials

    credentials = None
    if tls_cert_file and tls_private_key_file and client_ca_file:
        credentials = Credentials(tls_cert_file, tls_private_key_file, client_ca_file)
    elif tls_cert_file or tls_private_key_file or client_ca_file:
        raise click.UsageError("--tls-cert-file, --tls-private-key-file and --client-ca-file go together")
    try:
        load_nodes(nodes_file)
    except NodesFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await Host(ctx, nodes_file, root_dir, credentials, runtime_dir).run()

    run_component("kubelet", options, main, announce=False)  # each node is a component of its own

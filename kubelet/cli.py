"""`kubeskew kubelet`: the fake node agent of one or many nodes, in the foreground."""

from pathlib import Path
from typing import Any

import click

from apimachinery.component import ComponentContext, ComponentOptions, common_options, run_component


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
def kubelet(options: ComponentOptions, nodes_file: Path, root_dir: Path, **_: Any) -> None:
    """Run the kubelets of the nodes in a file.

    \b
    kubeskew kubelet --kubeconfig .kubeskew/kubeconfig --nodes-file nodes.yaml --root-dir kubelet
    """
    from kubelet.host import Host
    from kubelet.node_config import NodesFileError, load_nodes

    try:
        load_nodes(nodes_file)
    except NodesFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await Host(ctx, nodes_file, root_dir).run()

    run_component("kubelet", options, main, announce=False)  # each node is a component of its own

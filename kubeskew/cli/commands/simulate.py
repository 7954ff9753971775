"""`kubeskew simulate`: the cluster autoscaler's questions, answered by the scheduler's plugins."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import VersionParam
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.cli import completion
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    show_progress,
    state_dir_option,
)
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir

if TYPE_CHECKING:
    from kubeskew.cluster.autoscaling.simulator import Source
    from kubeskew.scheduler.autoscaling.scale_down import Removal

_FILE = click.Path(path_type=Path, dir_okay=False)
_MOST = 1000  # as the autoscaler's --max-nodes-per-scaleup

files_option = click.option(
    "-f",
    "--filename",
    "files",
    type=_FILE,
    multiple=True,
    help="A file of manifests to use instead of the running cluster; repeatable; - is standard input.",
)
version_option = click.option(
    "--version",
    type=VersionParam(),
    default=None,
    help="With -f: the version of the scheduler  [default: 1.36]. Without -f it is that of the cluster.",
)
gates_option = click.option(
    "--feature-gates",
    "gates",
    shell_complete=completion.gates,
    default="",
    metavar="A=true,…",
    help="With -f: feature gates of the scheduler to turn on or off.",
)


@click.group()
def simulate() -> None:
    """Show what the cluster autoscaler would do, with the scheduler's plugins; nothing is changed.

    \b
    kubeskew simulate scale-up --node-template gpu-nodes.yaml
    kubeskew simulate scale-up --node-template gpu-nodes.yaml -f pods.yaml --version 1.34 -o json
    kubeskew simulate scale-down node-3
    """


@simulate.command("scale-up")
@state_dir_option
@click.option(
    "--node-template",
    "templates",
    type=_FILE,
    multiple=True,
    help="A node to add copies of: a cluster file, each of whose nodes is a template, or manifests of a Node "
    "with its ResourceSlices; repeatable.",
)
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=0),
    default=_MOST,
    show_default=True,
    help="The number of nodes that may be added of each template.",
)
@files_option
@version_option
@gates_option
@output_option
def scale_up(
    directory: StateDir,
    templates: tuple[Path, ...],
    most: int,
    files: tuple[Path, ...],
    version: Version | None,
    gates: str,
    output: str,
) -> int:
    """Show how many nodes to add so that all pending pods fit, and which pod goes where.

    Pods and nodes are those of the running cluster, or of files. If the files have no nodes, it is a scale-up
    from zero. Exits 1 if some pods fit nowhere.

    \b
    kubeskew simulate scale-up --node-template nodes.yaml
    kubeskew simulate scale-up --node-template small.yaml --node-template large.yaml --max 10 -o json
    kubeskew simulate scale-up --node-template nodes.yaml -f pods.yaml -f claims.yaml --version 1.35
    """
    from kubeskew.cluster.autoscaling import simulator
    from kubeskew.cluster.autoscaling import templates as node_templates
    from kubeskew.cluster.autoscaling.simulator import placement_json

    if not templates:
        raise UserError("no node to add: give a cluster file or manifests of nodes with --node-template FILE")
    source = _source(directory, files, version, gates)
    made = node_templates.load(templates, source.manifests)
    answer = _simulated(simulator.scale_up(source, made, most, show_progress))
    found = placement_json(answer)
    if output == "json":
        print_json(found)
    else:
        _print_placement(found)
    return 1 if answer.rejected else 0


@simulate.command("scale-down")
@state_dir_option
@files_option
@version_option
@gates_option
@output_option
@click.argument("node")
def scale_down(
    directory: StateDir, files: tuple[Path, ...], version: Version | None, gates: str, output: str, node: str
) -> int:
    """Show whether NODE can be removed: for each of its pods its new place, or why it cannot move.

    Exits 1 if the node has to stay.

    \b
    kubeskew simulate scale-down node-3
    kubeskew simulate scale-down node-3 -f cluster.yaml --version 1.34 -o json
    """
    from kubeskew.cluster.autoscaling import simulator
    from kubeskew.cluster.autoscaling.simulator import removal_json
    from kubeskew.scheduler.autoscaling.scale_down import UnknownNodeError

    source = _source(directory, files, version, gates)
    try:
        answer = _simulated(simulator.scale_down(source, node))
    except UnknownNodeError:
        raise UserError(f"there is no node {node}; `kubectl get nodes` lists them") from None
    if output == "json":
        print_json(removal_json(answer))
    else:
        _print_removal(answer)
    return 0 if answer.possible else 1


def _source(directory: StateDir, files: tuple[Path, ...], version: Version | None, gates: str) -> "Source":
    """Without files, the cluster of the state directory is the source. Raises UserError."""
    if not files:
        if version is not None or gates:
            raise UserError("--version and --feature-gates go with -f: a cluster's scheduler has its own")
        if not directory.exists():
            raise UserError(
                f"there is no cluster in {directory.path}: `kubeskew up` starts one, -f takes files"
            )
        from kubeskew.cluster.autoscaling.simulator import source_of_cluster

        return source_of_cluster(directory)
    from kubeskew.cluster.autoscaling.manifests import Manifests, complete_workloads
    from kubeskew.cluster.autoscaling.simulator import Source

    chosen = version or DEFAULT_VERSION
    try:
        parsed = FeatureGates.parse(chosen, gates)
    except ValueError as error:
        raise UserError(f"feature gates: {error}") from error
    manifests = Manifests(chosen, parsed)
    manifests.read(files)
    complete_workloads(manifests)
    return Source(chosen, parsed, None, manifests)


def _simulated(question: Any) -> Any:
    """A cluster that does not run is a UserError, a failed simulation a ClusterError."""
    from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
    from kubeskew.scheduler.autoscaling.snapshot import SimulationError

    try:
        return run_async(question)
    except CONNECTION_ERRORS as error:
        raise UserError(f"the cluster does not run ({error}): start it with `kubeskew up`") from error
    except SimulationError as error:
        raise ClusterError(f"the simulation failed: {error}") from error


# -- output


def _print_placement(found: dict[str, Any]) -> None:
    rows = [
        {"template": entry["name"], "nodes": entry["nodes"], "pods": len(entry["pods"])}
        for entry in found["templates"]
    ]
    print_table(["TEMPLATE", "NODES", "PODS"], rows)
    for title, entries in (
        ("\nPods on new nodes:", [pod for entry in found["templates"] for pod in entry["pods"]]),
        ("\nPods that fit nodes that are there:", found["existing"]),
    ):
        if entries:
            echo(title)
            print_table(["POD", "NODE"], entries)
    if found["unschedulable"]:
        echo("\nPods that fit nowhere:")
        for entry in found["unschedulable"]:
            echo(f"{entry['pod']}:")
            for reason in entry["reasons"]:
                echo(f"  {reason}")


def _print_removal(answer: "Removal") -> None:
    echo(f"{answer.node} {'can be removed' if answer.possible else 'has to stay'}.")
    if answer.disabled:
        echo("Its annotation cluster-autoscaler.kubernetes.io/scale-down-disabled forbids it.")
    rows = [{"pod": pod.key, "goes to": node} for pod, node in answer.moved]
    rows += [{"pod": pod.key, "goes to": f"- {reason}"} for pod, reason in answer.stuck]
    rows += [{"pod": pod.key, "goes to": "(goes with the node)"} for pod in answer.with_node]
    if rows:
        print_table(["POD", "GOES TO"], rows)

"""Defines the commands that change a running cluster: versions, gates, restarts, kills."""

import click

from kubeskew.apimachinery.versions import Version
from kubeskew.cli import completion
from kubeskew.cli.commands.options import (
    VERSION,
    change_timed,
    component_option,
    parse_gate_changes,
    state_dir_option,
)
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import StateDir

to_option = click.option("--to", type=VERSION, required=True, help="The version to go to.")
force_option = click.option("--force", is_flag=True, help="Allow a skew that upstream does not support.")


@click.command()
@state_dir_option
@to_option
@component_option
@force_option
def upgrade(directory: StateDir, to: Version, components: tuple[str, ...], force: bool) -> None:
    """Bring components to a newer version: API servers, controller manager, scheduler, kubelets.

    \b
    kubeskew upgrade --to 1.36
    kubeskew upgrade --to 1.36 --component apiserver
    """
    change_timed(directory, lambda cluster: cluster.move(to, components, downgrade=False, force=force))


@click.command()
@state_dir_option
@to_option
@component_option
@force_option
def downgrade(directory: StateDir, to: Version, components: tuple[str, ...], force: bool) -> None:
    """Bring components to an older version: kubelets, scheduler, controller manager, API servers.

    \b
    kubeskew downgrade --to 1.35
    kubeskew downgrade --to 1.35 --component kubelet/node-1
    """
    change_timed(directory, lambda cluster: cluster.move(to, components, downgrade=True, force=force))


@click.command()
@state_dir_option
@click.argument("gates", metavar="A=true,B=false,C-", shell_complete=completion.gates)
@component_option
def gates(directory: StateDir, gates: str, components: tuple[str, ...]) -> None:
    """Set feature gates; the components restart with them. `C-` takes back what was set by hand.

    \b
    kubeskew gates DRAExtendedResource=false
    kubeskew gates DRAExtendedResource=true --component scheduler
    kubeskew gates DRAExtendedResource-
    """
    parsed = parse_gate_changes(gates)
    if not parsed:
        raise UserError("no gate given: write NAME=true, NAME=false or NAME-")
    change_timed(directory, lambda cluster: cluster.set_gates(parsed, components))


@click.command()
@state_dir_option
@click.argument("component", shell_complete=completion.components)
def restart(directory: StateDir, component: str) -> None:
    """Stop a component gracefully and start it again.

    \b
    kubeskew restart scheduler
    kubeskew restart kubelet/node-1
    kubeskew restart driver/gpu.example.com               its plugins and its controller, if it has one
    kubeskew restart driver-plugin/gpu.example.com        its plugins alone
    """
    change_timed(directory, lambda cluster: cluster.restart(component))


@click.command()
@state_dir_option
@click.argument("component", shell_complete=completion.components)
def kill(directory: StateDir, component: str) -> None:
    """End a component with SIGKILL; it stays down until it is restarted.

    \b
    kubeskew kill scheduler
    kubeskew restart scheduler
    kubeskew kill driver/gpu.example.com                  its plugins and its controller, if it has one
    kubeskew kill driver-controller/gpu.example.com       its controller alone
    """
    change_timed(directory, lambda cluster: cluster.kill(component))

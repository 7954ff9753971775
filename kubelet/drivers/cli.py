"""`kubeskew driver`: an example driver of one or many nodes, in the foreground."""

from pathlib import Path
from typing import Any

import click
import yaml

from apimachinery.component import ComponentContext, ComponentOptions, common_options, run_component

_NODE = "{node}"


@click.command(name="driver")
@common_options
@click.option("--driver-name", default="gpu.example.com", show_default=True, help="The driver's name.")
@click.option(
    "--driver-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    default=None,
    help="YAML or JSON list of the nodes to serve, instead of the flags below; read again on SIGHUP.",
)
@click.option("--node-name", "node_names", multiple=True, help="A node to serve; repeatable.")
@click.option(
    "--kubelet-registrar-directory-path",
    "registrar",
    default="/var/lib/kubelet/plugins_registry",
    show_default=True,
    help="Where the kubelet looks for plugins. {node} in a path stands for the node's name.",
)
@click.option(
    "--kubelet-plugins-directory-path",
    "plugins",
    default="/var/lib/kubelet/plugins",
    show_default=True,
    help="Where plugins keep their data and sockets.",
)
@click.option("--cdi-root", default="/etc/cdi", show_default=True, help="Where CDI files go.")
@click.option("--num-devices", type=click.IntRange(0), default=None, help="How many devices a node has.")
@click.option("--device-name", default="", help="What the devices are called, before their number.")
@click.option("--profile", default="", help="What the devices are: a100-mig, h100, tpu-v5e-4x4, nic-sriov, …")
@click.option(
    "--switch",
    "switches",
    multiple=True,
    metavar="KEY=VALUE",
    help="What goes wrong, as in the driver's file: refusePrepare=true, delay=2s, …; repeatable.",
)
@click.option(
    "--sync-delay",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    help="Seconds from somebody's change of a slice to its repair.",
)
def driver(
    options: ComponentOptions,
    driver_name: str,
    driver_file: Path | None,
    node_names: tuple[str, ...],
    switches: tuple[str, ...],
    sync_delay: float,
    **flags: Any,
) -> None:
    """Run an example DRA driver: made-up devices, published, and prepared for kubelets.

    `--emulated-version` is the release whose driver library it behaves as.

    \b
    kubeskew driver --kubeconfig .kubeskew/kubeconfig --driver-name gpu.example.com --node-name node-1 \\
        --kubelet-registrar-directory-path …/plugins_registry --num-devices 8
    """
    from kubelet.drivers.host import DriverHost
    from kubelet.drivers.settings import DriverFile, DriverFileError, load, parse_node

    if bool(driver_file) == bool(node_names):
        raise click.UsageError("say either --driver-file or --node-name")

    def read() -> DriverFile:
        if driver_file is not None:
            return load(driver_file)
        entries = [_entry(name, flags, switches) for name in node_names]
        return DriverFile(tuple(parse_node(entry, "flags") for entry in entries))

    try:
        read()
    except DriverFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await DriverHost(ctx, driver_name, read, sync_delay=sync_delay).run()

    run_component(f"driver/{driver_name}", options, main, agent=driver_name)


def _entry(name: str, flags: dict[str, Any], switches: tuple[str, ...]) -> dict[str, Any]:
    """The node's entry as the driver's file would have it."""
    pairs = [switch.partition("=") for switch in switches]
    return {
        "name": name,
        "registrarDir": flags["registrar"].replace(_NODE, name),
        "pluginsDir": flags["plugins"].replace(_NODE, name),
        "cdiDir": flags["cdi_root"].replace(_NODE, name),
        "devices": flags["num_devices"],
        "deviceName": flags["device_name"],
        "profile": flags["profile"],
        "switches": {key: yaml.safe_load(value or "true") for key, _, value in pairs},
    }

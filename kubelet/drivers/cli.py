"""`kubeskew driver` and `kubeskew driver-controller`: example drivers, device plugins and controllers.

Each runs in the foreground, for one or many nodes.
"""

from pathlib import Path
from typing import Any

import click
import yaml

from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    run_component,
)

_NODE = "{node}"


@click.command(name="driver")
@common_options
@click.option("--driver-name", default="gpu.example.com", show_default=True, help="The driver's name.")
@click.option(
    "--device-plugin",
    "resource",
    metavar="RESOURCE",
    default="",
    help="Run as a device plugin for this resource instead of a DRA driver, such as example.com/gpu.",
)
@click.option(
    "--driver-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    default=None,
    help="A YAML or JSON file that lists the nodes to serve, instead of --node-name and the flags about it; "
    "read again on SIGHUP.",
)
@click.option("--node-name", "node_names", multiple=True, help="A node to serve; repeatable.")
@click.option(
    "--kubelet-registrar-directory-path",
    "registrar",
    default="/var/lib/kubelet/plugins_registry",
    show_default=True,
    help="The directory in which the kubelet looks for plugins. In this and the other paths {node} stands "
    "for "
    "the node's name.",
)
@click.option(
    "--kubelet-plugins-directory-path",
    "plugins",
    default="/var/lib/kubelet/plugins",
    show_default=True,
    help="The directory in which plugins keep their data and sockets.",
)
@click.option(
    "--kubelet-device-plugins-directory-path",
    "device_plugins",
    default="/var/lib/kubelet/device-plugins",
    show_default=True,
    help="The directory of the kubelet's socket for device plugins.",
)
@click.option("--cdi-root", default="/etc/cdi", show_default=True, help="The directory for CDI files.")
@click.option(
    "--num-devices",
    "--devices",
    "num_devices",
    type=click.IntRange(0),
    default=None,
    help="The number of devices on each node.",
)
@click.option("--device-name", default="", help="The devices' name, to which their number is added.")
@click.option("--profile", default="", help="The kind of hardware: a100-mig, h100, tpu-v5e-4x4, nic-sriov, …")
@click.option(
    "--switch",
    "switches",
    multiple=True,
    metavar="KEY=VALUE",
    help="A failure to show, as in a driver's file: refusePrepare=true, delay=2s, …; repeatable.",
)
@click.option(
    "--sync-delay",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Seconds before the driver repairs a ResourceSlice that somebody else has changed. Less than 0.05 "
    "counts as 0.05; Kubernetes' library waits 30.",
)
def driver(
    options: ComponentOptions,
    driver_name: str,
    resource: str,
    driver_file: Path | None,
    node_names: tuple[str, ...],
    switches: tuple[str, ...],
    sync_delay: float,
    **flags: Any,
) -> None:
    """Run an example DRA driver in the foreground.

    It publishes made-up devices in ResourceSlices, and prepares claims when a kubelet asks for it.
    `--emulated-version` is the release of the driver library that it is built with. With `--device-plugin` it
    is an example device plugin instead: it lists made-up devices, and the kubelet gives them to containers.

    \b
    kubeskew driver --kubeconfig .kubeskew/kubeconfig --driver-name gpu.example.com --node-name node-1 \\
        --kubelet-registrar-directory-path …/registry --num-devices 8
    kubeskew driver --kubeconfig .kubeskew/kubeconfig --device-plugin example.com/gpu --node-name node-1 \\
        --kubelet-device-plugins-directory-path …/device-plugins --devices 2
    """
    if bool(driver_file) == bool(node_names):
        raise click.UsageError("say either --driver-file or --node-name")
    entries = [_entry(name, flags, switches) for name in node_names]
    if resource:
        _run_device_plugin(options, resource, driver_file, entries)
    else:
        _run_driver(options, driver_name, driver_file, entries, sync_delay)


def _run_driver(
    options: ComponentOptions, name: str, file: Path | None, entries: list[dict[str, Any]], sync_delay: float
) -> None:
    from kubeskew.kubelet.drivers.host import DriverHost
    from kubeskew.kubelet.drivers.settings import DriverFile, DriverFileError, load, parse_node

    def read() -> DriverFile:
        if file is not None:
            return load(file)
        return DriverFile(tuple(parse_node(entry, "flags") for entry in entries))

    try:
        read()
    except DriverFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await DriverHost(ctx, name, read, sync_delay=sync_delay).run()

    run_component(f"driver/{name}", options, main, agent=name)


def _run_device_plugin(
    options: ComponentOptions, resource: str, file: Path | None, entries: list[dict[str, Any]]
) -> None:
    from kubeskew.kubelet.drivers.example_device_plugin import PluginFile, PluginHost, load, parse_node
    from kubeskew.kubelet.drivers.settings import DriverFileError

    def read() -> PluginFile:
        if file is not None:
            return load(file)
        return PluginFile(tuple(parse_node(entry, "flags") for entry in entries))

    try:
        read()
    except DriverFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await PluginHost(ctx, resource, read).run()

    run_component(f"driver/{resource}", options, main, agent="device-plugin")


def _entry(name: str, flags: dict[str, Any], switches: tuple[str, ...]) -> dict[str, Any]:
    pairs = [switch.partition("=") for switch in switches]
    return {
        "name": name,
        "registrarDir": flags["registrar"].replace(_NODE, name),
        "pluginsDir": flags["plugins"].replace(_NODE, name),
        "devicePluginsDir": flags["device_plugins"].replace(_NODE, name),
        "cdiDir": flags["cdi_root"].replace(_NODE, name),
        "devices": flags["num_devices"],
        "deviceName": flags["device_name"],
        "profile": flags["profile"],
        "switches": {key: yaml.safe_load(value or "true") for key, _, value in pairs},
    }


@click.command(name="driver-controller")
@common_options
@click.option("--driver-name", default="gpu.example.com", show_default=True, help="The driver's name.")
@click.option(
    "--driver-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="A YAML or JSON file that lists the driver's nodes, as for `kubeskew driver`; read again on SIGHUP.",
)
def driver_controller(options: ComponentOptions, driver_name: str, driver_file: Path) -> None:
    """Run the controller of an example DRA driver in the foreground.

    Drivers had one up to 1.31: it allocated claims of classic DRA. `--emulated-version` is the release of the
    library that it is built with. The driver's plugins on the nodes are another process, `kubeskew driver`.

    \b
    kubeskew driver-controller --kubeconfig .kubeskew/kubeconfig --emulated-version 1.29 \\
        --driver-name gpu.example.com --driver-file nodes.yaml
    """
    from kubeskew.kubelet.drivers.controller_host import ControllerHost
    from kubeskew.kubelet.drivers.settings import DriverFileError, load

    try:
        load(driver_file)
    except DriverFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await ControllerHost(ctx, driver_name, lambda: load(driver_file)).run()

    run_component(f"driver-controller/{driver_name}", options, main, agent=f"{driver_name}-controller")

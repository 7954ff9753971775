"""`kubeskew driver-controller`: the controller of an example driver, in the foreground."""

from pathlib import Path

import click

from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    run_component,
)


@click.command(name="driver-controller")
@common_options
@click.option("--driver-name", default="gpu.example.com", show_default=True, help="The driver's name.")
@click.option(
    "--driver-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="YAML or JSON list of the driver's nodes, as `kubeskew driver` reads it; read again on SIGHUP.",
)
def driver_controller(options: ComponentOptions, driver_name: str, driver_file: Path) -> None:
    """Run the controller of an example DRA driver, in releases whose drivers have one.

    `--emulated-version` is the release whose library it is built with. The driver's plugins on the nodes are
    a process of their own, `kubeskew driver`.

    \b
    kubeskew driver-controller --kubeconfig .kubeskew/kubeconfig --emulated-version 1.29 \\
        --driver-name gpu.example.com --driver-file nodes.yaml
    """
    from kubeskew.kubelet.drivers.controller.host import ControllerHost
    from kubeskew.kubelet.drivers.settings import DriverFileError, load

    try:
        load(driver_file)
    except DriverFileError as error:
        raise click.UsageError(str(error)) from error

    async def main(ctx: ComponentContext) -> None:
        await ControllerHost(ctx, driver_name, lambda: load(driver_file)).run()

    run_component(f"driver-controller/{driver_name}", options, main, agent=f"{driver_name}-controller")

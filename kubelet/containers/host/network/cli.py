"""`kubeskew network`: the network of a cluster whose pods are processes of this machine."""

from pathlib import Path

import click

from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    run_component,
)


@click.command("network")
@common_options
@click.option(
    "--socket",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The Unix socket at which sockets and namespaces of pods are to be had.",
)
@click.option(
    "--outside",
    multiple=True,
    metavar="NAMESPACE/NAME=HOST:PORT",
    help="A service that is a process of this machine; repeatable.",
)
def network(options: ComponentOptions, socket: Path, outside: tuple[str, ...]) -> None:
    """Run the network of a cluster's pods in the foreground: namespaces, services, names.

    Pods have addresses of 10.244.0.0/16 in a network namespace of their own. Nothing leads from there to the
    machine's network but the API servers. It needs a kernel that lets this user make user namespaces.

    \b
    kubeskew network --kubeconfig .kubeskew/kubeconfig --socket /tmp/network.sock --secure-port 10249
    """
    from kubeskew.kubelet.containers.host.network.component import NetworkComponent
    from kubeskew.kubelet.containers.host.network.keeper_process import KeeperError

    places = dict(map(_outside, outside))

    async def main(ctx: ComponentContext) -> None:
        try:
            await NetworkComponent(ctx, socket, places).run()
        except KeeperError as error:
            raise click.ClickException(str(error)) from error

    run_component("network", options, main, agent="kube-proxy")


def _outside(text: str) -> tuple[str, tuple[str, int]]:
    name, equals, place = text.partition("=")
    host, colon, port = place.rpartition(":")
    if not equals or not colon or not port.isdecimal() or "/" not in name:
        raise click.BadParameter(f"{text} is not NAMESPACE/NAME=HOST:PORT", param_hint="--outside")
    return name, (host, int(port))

"""`kubeskew metrics-server`: the metrics server as a process, with those of its flags that have an effect."""

from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    run_component,
)

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_LEAST_SECONDS = 10.0


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _resolution(context: click.Context, parameter: click.Parameter, value: str) -> float:
    seconds = _seconds(context, parameter, value)
    if seconds < _LEAST_SECONDS:
        raise click.BadParameter(f"should be a time duration at least 10s, but value {value} provided")
    return seconds


@click.command("metrics-server")
@common_options
@click.option(
    "--api-address",
    "address",
    default="127.0.0.2",
    show_default=True,
    help="The address for metrics.k8s.io. The port is that of --secure-port.",
)
@click.option("--tls-cert-file", "certificate", type=_FILE, required=True, help="The server's certificate.")
@click.option(
    "--tls-private-key-file", "key", type=_FILE, required=True, help="The private key of --tls-cert-file."
)
@click.option(
    "--metric-resolution",
    default="15s",
    show_default=True,
    callback=_resolution,
    help="Time between two scrapes of each kubelet, 10s or more.",
)
@click.option(
    "--kubelet-request-timeout",
    "timeout",
    default="10s",
    show_default=True,
    callback=_seconds,
    help="Time within which a kubelet has to answer.",
)
@click.option(
    "--kubelet-preferred-address-types",
    "types",
    default="InternalIP,ExternalIP,Hostname",
    show_default=True,
    help="Types of a node's address, by preference: the first that the node has is used.",
)
def metrics_server(options: ComponentOptions, types: str, **settings: Any) -> None:
    """Run a metrics server in the foreground: metrics.k8s.io, for `kubectl top` and autoscalers.

    An API server forwards metrics.k8s.io to the Service that an APIService names. Start it with
    `--webhook-service-map kube-system/metrics-server=127.0.0.2:PORT`, so that it finds this process.

    \b
    kubeskew metrics-server --kubeconfig .kubeskew/kubeconfig --secure-port 4443 \\
        --tls-cert-file tls.crt --tls-private-key-file tls.key
    """
    from kubeskew.metricsserver.server import MetricsServer, ServerSettings

    chosen = ServerSettings(
        settings["address"],
        settings["certificate"],
        settings["key"],
        settings["metric_resolution"],
        settings["timeout"],
        tuple(types.split(",")),
    )
    if chosen.resolution * 9 / 10 < chosen.kubelet_timeout:
        raise click.UsageError("metric-resolution should be larger than kubelet-request-timeout")

    async def main(ctx: ComponentContext) -> None:
        await MetricsServer(ctx, chosen).run()

    run_component("metrics-server", options, main, agent="metrics-server")

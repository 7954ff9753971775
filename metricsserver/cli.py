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
    help="Where to serve the API: at the port where --bind-address has health and metrics.",
)
@click.option(
    "--tls-cert-file", "certificate", type=_FILE, required=True, help="What the API is served with."
)
@click.option("--tls-private-key-file", "key", type=_FILE, required=True, help="Its key.")
@click.option(
    "--metric-resolution",
    default="15s",
    show_default=True,
    callback=_resolution,
    help="How often kubelets are asked.",
)
@click.option(
    "--kubelet-request-timeout",
    "timeout",
    default="10s",
    show_default=True,
    callback=_seconds,
    help="How long a kubelet may take to answer.",
)
@click.option(
    "--kubelet-preferred-address-types",
    "types",
    default="InternalIP,ExternalIP,Hostname",
    show_default=True,
    help="Which of a node's addresses to ask it at, the first that it has.",
)
def metrics_server(options: ComponentOptions, types: str, **settings: Any) -> None:
    """Serve what nodes and pods use as the API group metrics.k8s.io, in the foreground.

    An API server finds it by its APIService, whose service is known by
    `--webhook-service-map kube-system/metrics-server=127.0.0.2:PORT`.

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

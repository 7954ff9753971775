"""`kubeskew kubelet`: the fake node agent of one or many nodes, in the foreground."""

import asyncio
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    run_component,
)

if TYPE_CHECKING:
    from kubeskew.kubelet.server.access import AccessOptions

_FILE = click.Path(exists=True, dir_okay=False)
_MODES = ("Webhook", "AlwaysAllow")


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", value)
    if not value or found is None:
        raise click.BadParameter(f"{value!r} is no duration such as 2m0s")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _access_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags for access to the nodes' servers, which the command gets as one `access`."""

    def duration(flag: str, default: str, text: str) -> Callable[..., Any]:
        return click.option(flag, default=default, show_default=True, callback=_seconds, help=text)

    @click.option(
        "--anonymous-auth/--no-anonymous-auth",
        "anonymous",
        default=False,
        help="Serve requests without credentials as system:anonymous.",
    )
    @click.option(
        "--authentication-token-webhook/--no-authentication-token-webhook",
        "token_webhook",
        default=True,
        help="Ask the API server to check bearer tokens (TokenReview).",
    )
    @duration("--authentication-token-webhook-cache-ttl", "2m0s", "Time to keep the result of a TokenReview.")
    @click.option(
        "--authorization-mode",
        type=click.Choice(_MODES),
        default=_MODES[0],
        show_default=True,
        help="Webhook asks the API server (SubjectAccessReview); AlwaysAllow allows every request.",
    )
    @duration("--authorization-webhook-cache-authorized-ttl", "5m0s", "Time to keep an answer that allows.")
    @duration("--authorization-webhook-cache-unauthorized-ttl", "30s", "Time to keep an answer that denies.")
    @functools.wraps(command)
    def wrapped(
        anonymous: bool,
        token_webhook: bool,
        authentication_token_webhook_cache_ttl: float,
        authorization_mode: str,
        authorization_webhook_cache_authorized_ttl: float,
        authorization_webhook_cache_unauthorized_ttl: float,
        **values: Any,
    ) -> None:
        from kubeskew.kubelet.server.access import AccessOptions

        access = AccessOptions(
            anonymous,
            token_webhook,
            authentication_token_webhook_cache_ttl,
            authorization_mode == _MODES[0],
            authorization_webhook_cache_authorized_ttl,
            authorization_webhook_cache_unauthorized_ttl,
        )
        command(access=access, **values)

    decorated: Callable[..., None] = wrapped
    return decorated


@click.command(name="kubelet")
@common_options
@click.option(
    "--nodes-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="A YAML or JSON file that lists the nodes to run; read again on SIGHUP.",
)
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The directory for the nodes' state: containers, checkpoints, CDI specs.",
)
@click.option(
    "--runtime-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="The directory for the nodes' sockets [default: --root-dir]. Its path has to be short, because a "
    "socket's path cannot be longer than 108 bytes.",
)
@click.option(
    "--container-runtime-endpoint",
    default="",
    metavar="unix:///PATH",
    help="The socket of a container runtime that runs the pods of nodes whose entry names no runtime.",
)
@click.option(
    "--tls-cert-file", type=_FILE, default=None, help="The certificate of the nodes' HTTPS servers."
)
@click.option("--tls-private-key-file", type=_FILE, default=None, help="The private key of --tls-cert-file.")
@click.option(
    "--client-ca-file",
    type=_FILE,
    default=None,
    help="The CA of the client certificates that the nodes' HTTPS servers accept.",
)
@_access_options
def kubelet(
    options: ComponentOptions,
    nodes_file: Path,
    root_dir: Path,
    runtime_dir: Path | None,
    container_runtime_endpoint: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    access: "AccessOptions",
    **_: Any,
) -> None:
    """Run kubelets for fake nodes in the foreground: one process for all nodes of a file.

    Without --tls-cert-file, --tls-private-key-file and --client-ca-file the nodes serve no HTTPS, so that
    `kubectl logs` and `kubectl exec` do not work.

    \b
    kubeskew kubelet --kubeconfig .kubeskew/kubeconfig --nodes-file nodes.yaml --root-dir kubelet
    """
    from kubeskew.kubelet.containers.remote.calls import endpoint_obstacle
    from kubeskew.kubelet.host import Host
    from kubeskew.kubelet.node.config import NodesFileError, load_nodes
    from kubeskew.kubelet.server.server import Credentials

    credentials = None
    if tls_cert_file and tls_private_key_file and client_ca_file:
        credentials = Credentials(tls_cert_file, tls_private_key_file, client_ca_file)
    elif tls_cert_file or tls_private_key_file or client_ca_file:
        raise click.UsageError("--tls-cert-file, --tls-private-key-file and --client-ca-file go together")
    try:
        nodes = load_nodes(nodes_file, container_runtime_endpoint)
    except NodesFileError as error:
        raise click.UsageError(str(error)) from error
    for endpoint in sorted({node.endpoint for node in nodes if node.endpoint}):
        if reason := asyncio.run(endpoint_obstacle(endpoint)):
            raise click.UsageError(f"failed to run Kubelet: {reason}")

    async def main(ctx: ComponentContext) -> None:
        await Host(
            *(ctx, nodes_file, root_dir, credentials, runtime_dir, access), container_runtime_endpoint
        ).run()

    run_component("kubelet", options, main, announce=False)  # each node announces itself

"""`kubeskew controller-manager`, with those of upstream's flags that have an effect here."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    leader_election_option,
    run_component,
)

# Upstream's flag and the controller whose workers it counts.
_CONCURRENCY = {
    "concurrent-deployment-syncs": "deployment-controller",
    "concurrent-gc-syncs": "garbage-collector-controller",
    "concurrent-namespace-syncs": "namespace-controller",
    "concurrent-replicaset-syncs": "replicaset-controller",
    "concurrent-resourceclaim-syncs": "resourceclaim-controller",
}

Command = Callable[..., None]
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


def concurrency_options(command: Command) -> Command:
    """Adds `--concurrent-…-syncs`, which the command then gets as one mapping `workers`."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        given = {controller: values.pop(_parameter(flag)) for flag, controller in _CONCURRENCY.items()}
        command(workers={name: count for name, count in given.items() if count is not None}, **values)

    decorated: Command = wrapped
    for flag, controller in _CONCURRENCY.items():
        option = click.option(
            f"--{flag}", type=click.IntRange(min=1), help=f"Number of workers of the {controller}."
        )
        decorated = option(decorated)
    return decorated


def _parameter(flag: str) -> str:
    return flag.replace("-", "_")


@click.command("controller-manager")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    metavar="NAMES",
    help="Controllers to run, separated by commas. '*' is all that run by default, 'NAME' adds one, '-NAME' "
    "leaves one out.",
)
@concurrency_options
@click.option(
    "--root-ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The CA certificate to publish in every namespace [default: the kubeconfig's].",
)
@click.option(
    "--cluster-signing-cert-file",
    "signing_certificate",
    type=_FILE,
    help="The CA certificate with which CertificateSigningRequests are signed.",
)
@click.option(
    "--cluster-signing-key-file",
    "signing_key",
    type=_FILE,
    help="The private key of --cluster-signing-cert-file.",
)
@click.option(
    "--service-account-private-key-file",
    "account_key",
    type=_FILE,
    help="The private key that signs the tokens in Secrets of type kubernetes.io/service-account-token.",
)
@click.option(
    "--use-service-account-credentials",
    "own_accounts",
    is_flag=True,
    help="Each controller calls the API server as its own service account.",
)
@common_options
@leader_election_option
def controller_manager(
    options: ComponentOptions,
    controllers: str,
    workers: Mapping[str, int],
    root_ca_file: Path | None,
    own_accounts: bool,
    signing_certificate: Path | None,
    signing_key: Path | None,
    account_key: Path | None,
) -> None:
    """Run a controller manager in the foreground.

    \b
    kubeskew controller-manager --kubeconfig .kubeskew/kubeconfig --emulated-version 1.35
    kubeskew controller-manager --kubeconfig .kubeskew/kubeconfig --controllers '*,-job-controller'
    """
    from kubeskew.controllers.manager import Manager, ManagerOptions, unknown_controllers

    wanted = [name for name in controllers.split(",") if name]
    if unknown := unknown_controllers(wanted):
        raise click.UsageError(f"--controllers: {unknown[0]!r} is not in the list of known controllers")
    manager_options = ManagerOptions(
        controllers=wanted,
        workers=workers,
        root_ca=_root_ca(root_ca_file, options.kubeconfig),
        own_accounts=own_accounts,
        authority=(
            (signing_certificate.read_bytes(), signing_key.read_bytes())
            if signing_certificate and signing_key
            else None
        ),
        account_key=account_key.read_bytes() if account_key else b"",
    )

    async def main(ctx: ComponentContext) -> None:
        await Manager(ctx, manager_options).run()

    run_component("controller-manager", options, main)


def _root_ca(file: Path | None, kubeconfig: Path) -> str:
    from kubeskew.apimachinery.client.kubeconfig import KubeconfigError, load_kubeconfig

    try:
        return file.read_text() if file is not None else load_kubeconfig(kubeconfig).ca.decode()
    except OSError as error:
        raise click.UsageError(f"--root-ca-file: {file}: {error.strerror}") from error
    except KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from error

"""`kubeskew etcd`: etcd's API as a process, with those of etcd's flags that have an effect."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import click

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.apimachinery.process.component import verbosity_option
from kubeskew.apimachinery.process.machine import Machine, SystemMachine, machine_given
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.urls import backend_of

if TYPE_CHECKING:
    from kubeskew.apiserver.storage.etcd.backing import Backing
    from kubeskew.apiserver.storage.etcd.grpc_server import TLSFiles

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
MEMORY = "memory"


class ClientURL(NamedTuple):
    text: str
    secure: bool
    host: str
    port: int


def _urls(_context: click.Context, _parameter: click.Parameter, value: str) -> Sequence[ClientURL]:
    return [_url(text) for text in value.split(",") if text]


def _url(text: str) -> ClientURL:
    """Words what is wrong as etcd does (client/pkg/types/urls.go, 3.6)."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise click.BadParameter(f'parse "{text}": {error}') from error
    if parts.scheme not in ("http", "https"):
        raise click.BadParameter(f"URL scheme must be http, https, unix, or unixs: {text}")
    if not parts.hostname or port is None:
        raise click.BadParameter(f'URL address does not have the form "host:port": {text}')
    if parts.path:
        raise click.BadParameter(f"URL must not contain a path: {text}")
    return ClientURL(text, parts.scheme == "https", parts.hostname, port)


def _storage(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value != MEMORY:
        try:
            backend_of(value)
        except StorageError as error:
            raise click.BadParameter(str(error)) from error
    return value


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("etcd")
@click.option(
    "--listen-client-urls",
    "client_urls",
    default="http://127.0.0.1:2379",
    show_default=True,
    callback=_urls,
    help="The URLs to listen on, separated by commas; port 0 takes any free one.",
)
@click.option(
    "--listen-metrics-urls",
    "metrics_urls",
    default="",
    callback=_urls,
    help="Further URLs for /health, /version and /metrics, without TLS.",
)
@click.option(
    "--storage",
    default=MEMORY,
    show_default=True,
    callback=_storage,
    metavar="memory|URL",
    help="What keeps the keys: the event log at a URL, which API servers may write as well, or `memory`, "
    "until the process ends.",
)
@click.option("--cert-file", type=_FILE, default=None, help="The server's certificate, for URLs with https.")
@click.option("--key-file", type=_FILE, default=None, help="The private key of --cert-file.")
@click.option(
    "--trusted-ca-file", type=_FILE, default=None, help="Serve only clients with a certificate of this CA."
)
@click.option(
    "--client-cert-auth",
    is_flag=True,
    help="Serve only clients with a certificate, of the system's CAs without --trusted-ca-file.",
)
@click.option(
    "--watch-progress-notify-interval",
    "progress",
    default="10m",
    show_default=True,
    callback=_seconds,
    help="Time between notifications of watches that want them.",
)
@verbosity_option
def etcd(
    client_urls: Sequence[ClientURL],
    metrics_urls: Sequence[ClientURL],
    storage: str,
    cert_file: Path | None,
    key_file: Path | None,
    trusted_ca_file: Path | None,
    client_cert_auth: bool,
    progress: float,
    verbosity: int,
) -> None:
    """Serve etcd's API, version 3, in the foreground: a real kube-apiserver can store in it.

    Start the API server with `--storage-media-type=application/json`.

    \b
    kubeskew etcd --listen-client-urls http://127.0.0.1:2379
    kube-apiserver --etcd-servers http://127.0.0.1:2379 --storage-media-type application/json …
    """
    tls = _tls(client_urls, cert_file, key_file, trusted_ca_file, client_cert_auth)
    machine = machine_given(SystemMachine)
    machine.log(verbosity)
    machine.run(_serve(machine, storage, client_urls, metrics_urls, tls, progress))


def _tls(
    urls: Sequence[ClientURL],
    certificate: Path | None,
    key: Path | None,
    trusted: Path | None,
    client_auth: bool,
) -> "TLSFiles | None":
    from kubeskew.apiserver.storage.etcd.grpc_server import TLSFiles

    if not any(url.secure for url in urls):
        return None
    if certificate is None or key is None:
        raise click.UsageError("--cert-file and --key-file must both be present for https")
    files = TLSFiles(certificate, key, trusted, client_auth)
    try:
        files.context()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--cert-file: {error}") from error
    return files


async def _backing(storage: str, clock: Clock) -> "Backing":
    """Raises ClickException."""
    if storage == MEMORY:
        from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking

        return MemoryBacking()
    from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
    from kubeskew.apiserver.storage.factory import SQLStorage

    try:
        return await LogBacking.open(await SQLStorage().log(storage, clock), clock)
    except StorageError as error:
        raise click.ClickException(str(error)) from error


async def _serve(
    machine: Machine,
    storage: str,
    client_urls: Sequence[ClientURL],
    metrics_urls: Sequence[ClientURL],
    tls: "TLSFiles | None",
    progress: float,
) -> None:
    from kubeskew.apimachinery.process.runtime import stop_on_signals
    from kubeskew.apiserver.storage.etcd.grpc_server import GRPCServer
    from kubeskew.apiserver.storage.etcd.http_server import served
    from kubeskew.apiserver.storage.etcd.server import EtcdServer

    stop = asyncio.Event()
    stop_on_signals(stop, machine.exit)
    backing = await _backing(storage, machine.clock)
    server = await EtcdServer.open(backing, machine.clock, machine.entropy(), progress_seconds=progress)
    try:
        grpc_server = GRPCServer(server, [url.text for url in client_urls])
        try:
            for url in client_urls:
                port = await grpc_server.listen(
                    url.host, url.port, tls.context() if url.secure and tls else None
                )
                click.echo(f"serving etcd's API at {'https' if url.secure else 'http'}://{url.host}:{port}")
            async with served(server, [(url.host, url.port) for url in metrics_urls]):
                machine.settle()
                await stop.wait()
        except OSError as error:
            raise click.ClickException(str(error)) from error
        finally:
            await grpc_server.stop()
    finally:
        await server.close()

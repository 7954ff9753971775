"""The command `apiserver`, with upstream's flag names."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.process.component import (
    bugs_option,
    check_own_bugs,
    faults_option,
    gates_option,
    parse_gates,
    time_option,
    verbosity_option,
    version_option,
)
from kubeskew.apimachinery.process.machine import machine_given
from kubeskew.apimachinery.process.runtime import end_on_signals, stop_on_signals
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import gate_conflict
from kubeskew.apiserver.options import AUTO, MOST_WORKERS, ServerOptions, automatic, cores
from kubeskew.apiserver.serviceaccount import ISSUER

if TYPE_CHECKING:
    from kubeskew.apiserver.machine import ServerMachine

_FILE = click.Path(exists=True, dir_okay=False)
_FILES = frozenset(
    {
        "cert_dir", "tls_cert_file", "tls_private_key_file", "client_ca_file", "token_auth_file",
        "service_account_signing_key_file", "kubelet_certificate_authority",
        "kubelet_client_certificate", "kubelet_client_key",
        "requestheader_client_ca_file", "proxy_client_cert_file", "proxy_client_key_file", "faults_dir",
    }
)  # fmt: skip
_REQUEST_HEADERS = {  # options of authentication by headers, with their help
    "requestheader_allowed_names": "Common names that a front proxy's certificate may have; empty allows "
    "any.",
    "requestheader_username_headers": "Headers in which a front proxy gives the user's name.",
    "requestheader_uid_headers": "Headers in which a front proxy gives the user's UID.",
    "requestheader_group_headers": "Headers in which a front proxy gives the user's groups.",
    "requestheader_extra_headers_prefix": "Prefixes of headers in which a front proxy gives the user's "
    "extra fields.",
}


class WorkerCount(click.ParamType[int]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == AUTO:
            return automatic(cores())
        try:
            count = int(value)
        except ValueError:
            count = 0
        if not 1 <= count <= MOST_WORKERS:
            self.fail(f"expected a number from 1 to {MOST_WORKERS}, or {AUTO}, found {value!r}", param, ctx)
        return count


def _front_proxy_options(command: Callable[..., None]) -> Callable[..., None]:
    for name, text in reversed(_REQUEST_HEADERS.items()):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, default="", metavar="A,B", help=text)(command)
    for flag, text in {
        "requestheader-client-ca-file": "The CA of the client certificates of front proxies, which name "
        "users in "
        "headers.",
        "proxy-client-cert-file": "The client certificate for calls to the servers of APIServices.",
        "proxy-client-key-file": "The private key of --proxy-client-cert-file.",
    }.items():
        command = click.option(f"--{flag}", type=_FILE, default=None, help=text)(command)
    return command


@click.command("apiserver")
@click.option(
    "--name",
    default="apiserver",
    show_default=True,
    help="The server's name in the log, such as apiserver-1.",
)
@click.option(
    "--storage-url",
    default="",
    help="The database of the log: sqlite:///FILE or postgresql://USER@HOST/NAME.",
)
@click.option(
    "--storage-url-file",
    type=_FILE,
    default=None,
    help="A file with the URL of the database, for a URL that has a password.",
)
@version_option
@gates_option
@bugs_option
@click.option(
    "--runtime-config",
    default="",
    metavar="api/all=true,GROUP/VERSION=false",
    help="API versions to serve or not to serve, unlike the release's defaults.",
)
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="The port to listen on; 0 takes any free one.",
)
@click.option(
    "--shared-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="A second port, which all API servers of the cluster listen on: a connection goes to any that is "
    "ready.",
)
@click.option(
    "--advertise-address",
    default="127.0.0.1",
    show_default=True,
    help="The address of the Service `kubernetes`, at which clients in the cluster reach the server.",
)
@click.option(
    "--cert-dir",
    type=click.Path(file_okay=False),
    default="apiserver.local.config/certificates",
    show_default=True,
    help="Without --tls-cert-file, the directory for a self-signed certificate (apiserver.crt, "
    "apiserver.key). "
    "If it is empty, the certificate is kept in memory.",
)
@click.option("--tls-cert-file", type=_FILE, default=None, help="The server's certificate.")
@click.option("--tls-private-key-file", type=_FILE, default=None, help="The private key of --tls-cert-file.")
@click.option("--client-ca-file", type=_FILE, default=None, help="The CA of clients' certificates.")
@click.option(
    "--token-auth-file",
    type=_FILE,
    default=None,
    help="A file of bearer tokens, a line each: token,user,uid,groups.",
)
@click.option(
    "--anonymous-auth/--no-anonymous-auth",
    default=True,
    show_default=True,
    help="Serve requests without credentials as system:anonymous.",
)
@click.option(
    "--enable-logs-handler",
    type=bool,
    default=False,
    show_default=True,
    help="Serve /logs. Here it is an empty directory.",
)
@click.option(
    "--service-account-issuer",
    "service_account_issuer",
    multiple=True,
    default=(ISSUER,),
    show_default=True,
    help="Issuers whose service account tokens are accepted; repeatable. New tokens have the first.",
)
@click.option(
    "--service-account-jwks-uri",
    default="",
    help="The URI of the keys in the discovery document of the issuer [default: at this server's address].",
)
@click.option(
    "--service-account-signing-key-file",
    type=_FILE,
    default=None,
    help="The private key that signs service account tokens.",
)
@click.option(
    "--service-account-key-file",
    "service_account_key_files",
    type=_FILE,
    multiple=True,
    help="A key whose service account tokens are accepted; repeatable [default: the signing key].",
)
@click.option(
    "--api-audiences",
    default="",
    help="Audiences of which a token must name one, separated by commas [default: the first issuer].",
)
@click.option(
    "--service-cluster-ip-range",
    default="10.96.0.0/16",
    show_default=True,
    help="The range from which Services get their cluster IPs.",
)
@click.option(
    "--network-agent",
    default="",
    metavar="PATH",
    help="The Unix socket of the network that the cluster's pods have [default: they have none].",
)
@click.option(
    "--max-requests-inflight",
    type=int,
    default=400,
    show_default=True,
    help="The number of reads that may run at once; 0 is no limit.",
)
@click.option(
    "--max-mutating-requests-inflight",
    type=int,
    default=200,
    show_default=True,
    help="The number of writes that may run at once; 0 is no limit.",
)
@click.option(
    "--workers",
    type=WorkerCount(),
    default="1",
    metavar="N|auto",
    show_default=True,
    help="The number of processes that answer requests, behind one port and over one log; `auto` is what is "
    "fastest on this machine. In a simulation there is one.",
)
@click.option(
    "--shutdown-delay-duration",
    "shutdown_delay_seconds",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds for which the server still serves after a signal to stop, while /readyz fails.",
)
@click.option(
    "--enable-admission-plugins",
    default="",
    metavar="NAME,...",
    help="Admission plugins to add to those that are on by default.",
)
@click.option(
    "--disable-admission-plugins",
    default="",
    metavar="NAME,...",
    help="Admission plugins to leave out, though they are on by default.",
)
@click.option(
    "--webhook-service-map",
    "webhook_services",
    multiple=True,
    metavar="NAMESPACE/NAME=HOST:PORT",
    help="The address on this machine of a Service that a webhook or an APIService names; repeatable.",
)
@click.option(
    "--kubelet-certificate-authority",
    type=_FILE,
    default=None,
    help="The CA of the kubelets' server certificates.",
)
@click.option(
    "--kubelet-client-certificate",
    type=_FILE,
    default=None,
    help="The client certificate for calls to kubelets.",
)
@click.option(
    "--kubelet-client-key",
    type=_FILE,
    default=None,
    help="The private key of --kubelet-client-certificate.",
)
@_front_proxy_options
@faults_option
@time_option
@verbosity_option
def apiserver(
    emulated_version: Version,
    gates: str,
    bugs: dict[str, bool],
    runtime_config: str,
    time: str,
    workers: int,
    **given: Any,
) -> None:
    """Run an API server in the foreground.

    \b
    kubeskew apiserver --storage-url sqlite:///log.db --token-auth-file tokens.csv
    kubeskew apiserver --storage-url sqlite:///log.db --emulated-version 1.34 --secure-port 0
    """
    _trust_nobody()
    from kubeskew.apimachinery.catalogue import parse_runtime_config
    from kubeskew.apimachinery.catalogue.served_resources import check_runtime_config

    feature_gates = parse_gates(emulated_version, gates, bugs)
    check_own_bugs(feature_gates, "apiserver")
    if conflict := gate_conflict(feature_gates):
        raise click.UsageError(conflict)
    try:
        config = parse_runtime_config(runtime_config)
        check_runtime_config(config, emulated_version)
    except ValueError as error:
        raise click.UsageError(f"--runtime-config: {error}") from error
    given["storage_url"] = _storage_url(given.pop("storage_url"), given.pop("storage_url_file"))
    options = _options(given, config)
    _check_plugins(options)
    from kubeskew.apiserver.machine import SystemServerMachine

    machine: ServerMachine = machine_given(SystemServerMachine)
    machine.log(given["verbosity"])

    def environment() -> Environment:
        return Environment(emulated_version, feature_gates, machine.clock, machine.entropy(), time=time)

    if workers > 1 and isinstance(machine, SystemServerMachine):
        sys.exit(_supervised(options, environment, machine.clock, workers))
    machine.run(_main(options, environment(), machine))


def _storage_url(url: str, file: str | None) -> str:
    """Raises UsageError unless exactly one of the two flags is given, with the URL of a known backend."""
    from kubeskew.apiserver.storage.interfaces import StorageError
    from kubeskew.apiserver.storage.urls import backend_of

    if bool(url) == bool(file):
        raise click.UsageError("give one of --storage-url and --storage-url-file")
    url = Path(file).read_text().strip() if file else url
    try:
        backend_of(url)
    except StorageError as error:
        raise click.UsageError(str(error)) from error
    return url


def _options(given: dict[str, Any], runtime_config: dict[str, bool]) -> ServerOptions:
    """Parameters of the command have the names of the options' fields."""
    values: dict[str, Any] = {
        name: _path(value) if name in _FILES else value for name, value in given.items()
    }
    values["service_account_key_files"] = tuple(map(_path, given["service_account_key_files"]))
    for name in ("api_audiences", "enable_admission_plugins", "disable_admission_plugins", *_REQUEST_HEADERS):
        values[name] = _names(given[name])
    values["webhook_services"] = _service_map(given["webhook_services"])
    return ServerOptions(runtime_config=runtime_config, **values)


def _service_map(listed: tuple[str, ...]) -> dict[str, str]:
    """Separates `--webhook-service-map` at commas too."""
    from kubeskew.apiserver.webhooks.endpoints import ResolutionError, parse_address

    found = {}
    for name in filter(None, ",".join(listed).split(",")):
        service, _, address = name.partition("=")
        try:
            parse_address(address)
        except ResolutionError as error:
            raise click.UsageError(f"--webhook-service-map: {name}: {error}") from error
        if service.count("/") != 1:
            raise click.UsageError(f"--webhook-service-map: {name}: needs NAMESPACE/NAME=HOST:PORT")
        found[service] = address
    return found


def _trust_nobody() -> None:
    """Spares the process the machine's CA bundle, which aiohttp's client reads when it is imported (60
    ms).
    """
    os.environ.setdefault("SSL_CERT_FILE", os.devnull)
    os.environ.setdefault("SSL_CERT_DIR", os.devnull)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _check_plugins(options: ServerOptions) -> None:
    from kubeskew.apiserver.admission.chain import flag_errors

    errors = flag_errors(options.enable_admission_plugins, options.disable_admission_plugins)
    if errors:
        raise click.UsageError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def _path(path: str | None) -> str:
    return str(Path(path).absolute()) if path else ""


def _supervised(
    options: ServerOptions, environment: Callable[[], Environment], clock: Clock, count: int
) -> int:
    """Returns the exit status. What processes need that are forked later is imported before."""
    import_module("kubeskew.apiserver.server")
    from kubeskew.apiserver.http.self_signed import CertificateFilesError
    from kubeskew.apiserver.machine import SystemServerMachine
    from kubeskew.apiserver.storage.forwarding.frames import Door
    from kubeskew.apiserver.workers.seat import Seat
    from kubeskew.apiserver.workers.supervisor import Supervisor, common_files
    from kubeskew.apiserver.workers.worker import WorkerMachine, write_log

    def run_worker(options: ServerOptions, seat: Seat, door: Door) -> int:
        machine = WorkerMachine(seat, door)
        return _status_of(lambda: machine.run(_main(options, environment(), machine)))

    def run_writer(options: ServerOptions, door: Door) -> int:
        machine = SystemServerMachine()
        return _status_of(lambda: machine.run(_named(options.name, write_log(options, machine, door))))

    try:
        with common_files(options, clock) as options:
            return Supervisor(options, clock, count, run_worker, run_writer).run()
    except (CertificateFilesError, OSError) as error:
        raise click.ClickException(f"{options.name} cannot run: {error}") from error


def _status_of(run: Callable[[], None]) -> int:
    try:
        run()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0


async def _named(name: str, work: Awaitable[None]) -> None:
    """Raises ClickException for what ends the work."""
    from kubeskew.apiserver.storage.interfaces import StorageError

    try:
        await work
    except (StorageError, OSError) as error:
        raise click.ClickException(f"{name} cannot run: {error}") from error


async def _main(options: ServerOptions, environment: Environment, machine: "ServerMachine") -> None:
    from kubeskew.apiserver.http.self_signed import CertificateFilesError
    from kubeskew.apiserver.server import serve
    from kubeskew.apiserver.storage.interfaces import StorageError

    stop = asyncio.Event()
    end_on_signals(machine.exit)  # another process may hold the storage for long, and nothing can be lost yet
    try:
        await serve(options, environment, stop, machine, lambda: stop_on_signals(stop, machine.exit))
    except (
        StorageError,
        CertificateFilesError,
        OSError,
    ) as error:  # a broken database, a port in use, an unreadable file
        raise click.ClickException(f"{options.name} cannot run: {error}") from error


if __name__ == "__main__":
    apiserver()

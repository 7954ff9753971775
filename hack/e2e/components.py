"""Upstream's command lines for the components of kubeskew, so that upstream's own scripts can run them.

`bin/kube-apiserver` and its neighbours are links to one program. A component has the release that the folder
of its link is named after (`v1.35.6`, `1.35`), or $KUBESKEW_VERSION, or else the newest. Flags that the
component of kubeskew has are passed on; others are named on standard error and left out.

Where upstream has something that the foreground commands have not, the wrapper adds it: HTTPS at the ports of
scheduler and controller manager, a kubelet's serving certificate by a CertificateSigningRequest, its port
at the address that it was given, and a kube-proxy that is healthy and does nothing.
"""

import asyncio
import base64
import contextlib
import http.client
import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.cli.main import main as kubeskew
from kubeskew.kubelet.node.config import NodeLayout
from kubeskew.kubelet.node.object import host_ip

COMMANDS = {
    "kube-apiserver": "apiserver",
    "kube-controller-manager": "controller-manager",
    "kube-scheduler": "scheduler",
    "kubelet": "kubelet",
}
_RELEASE = re.compile(r"v?(1\.\d+(?:\.\d+)?)")


class ComponentError(Exception):
    """The flags name no component that can run here."""


@dataclass(slots=True)
class CommandLine:
    """The arguments for a command of kubeskew, and the flags that it does not have."""

    arguments: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def release_of(called: Path, environment: Mapping[str, str]) -> str:
    """The release that a program has by the folder that it is called from."""
    found = _RELEASE.fullmatch(called.parent.name)
    return found[1] if found else environment.get("KUBESKEW_VERSION") or str(DEFAULT_VERSION)


def given_flags(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Values by flag without its dashes, in Go's forms; those that are empty do not count."""
    flags: dict[str, list[str]] = {}
    remaining = [argument for argument in arguments if argument]
    while remaining:
        argument = remaining.pop(0)
        if not argument.startswith("-"):
            raise ComponentError(f"unknown argument {argument}")
        name, assigned, value = argument.lstrip("-").partition("=")
        if not assigned:
            follows = bool(remaining) and not remaining[0].startswith("-")
            value = remaining.pop(0) if follows else "true"
        if value:
            flags.setdefault(name, []).append(value)
    return flags


def translated(command: click.Command, flags: Mapping[str, Sequence[str]]) -> CommandLine:
    """Passes on the flags that a command has."""
    known = {name.lstrip("-"): each for each in command.params for name in (*each.opts, *each.secondary_opts)}
    line = CommandLine()
    for name, values in flags.items():
        option = known.get(name)
        if option is None:
            line.left_out.append(f"--{name}")
        elif getattr(option, "is_flag", False):
            on = values[-1].lower() in ("true", "1", "t")
            line.arguments += [f"--{name}"] if on else list(option.secondary_opts)
        else:
            kept = values if option.multiple else values[-1:]
            line.arguments += [f"--{name}={value}" for value in kept]
    return line


def runtime_config(text: str) -> str:
    """Versions that are named without a value are on, as upstream takes them."""
    return ",".join(each if "=" in each else f"{each}=true" for each in text.split(",") if each)


# -- certificates


def key_pair(directory: Path, name: str) -> tuple[ec.EllipticCurvePrivateKey, Path, Path]:
    """A new key with its file, and the place for its certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    path = directory / f"{name}.key"
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(encoded)
    return key, path, directory / f"{name}.crt"


_YEAR = timedelta(days=365)


def self_signed(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate for /healthz, whose clients do not check it."""
    key, key_file, certificate_file = key_pair(directory, name)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = SystemClock().now()
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _YEAR)
        .not_valid_after(now + _YEAR)
        .sign(key, hashes.SHA256())
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate_file, key_file


def serving_request(key: ec.EllipticCurvePrivateKey, node: str, addresses: Sequence[str]) -> bytes:
    """A kubelet's request for its serving certificate (pkg/kubelet/certificate/kubelet.go, 1.36)."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    names = x509.SubjectAlternativeName([_alternative(address) for address in addresses])
    signed = x509.CertificateSigningRequestBuilder(subject).add_extension(names, critical=False)
    return signed.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _alternative(address: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(address))
    return x509.DNSName(address)


_REQUESTS = Ref(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    namespaced=False,
    kind="CertificateSigningRequest",
)


async def signed_certificate(kubeconfig: Path, request: bytes) -> bytes:
    """Waits until somebody has approved the request and the controller manager has signed it."""
    client = APIClient.from_kubeconfig(kubeconfig, "kubelet")
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "csr-"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving",
            "request": base64.b64encode(request).decode(),
            "usages": ["digital signature", "server auth"],
        },
    }
    try:
        made = await client.create(_REQUESTS, body)
        while True:
            found = await client.get(_REQUESTS, made["metadata"]["name"])
            certificate = (found.get("status") or {}).get("certificate")
            if certificate:
                return base64.b64decode(certificate)
            await asyncio.sleep(0.5)
    finally:
        await client.close()


# -- ports


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})


def serve_health(address: str, port: int, behind: int, certificate: tuple[Path, Path] | None) -> None:
    """Answers GET of health at a port, over TLS with a certificate, as the plain server `behind` does; with
    port 0 behind it, it is always healthy. Nothing else is answered: nobody is asked who he is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = 404, b"404 page not found\n"
            if self.path.partition("?")[0] in _HEALTH_PATHS:
                status, body = _answer(behind, self.path) if behind else (200, b"ok")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((address, port), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()


def _answer(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError as error:
        return 503, str(error).encode()
    finally:
        connection.close()


def relay(address: str, port: int, target: tuple[str, int]) -> None:
    """Passes connections to a port on to another address."""
    listener = socket.create_server((address, port))

    def accept() -> None:
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=_join, args=(accepted, target), daemon=True).start()

    threading.Thread(target=accept, name="relay", daemon=True).start()


def _join(accepted: socket.socket, target: tuple[str, int]) -> None:
    with accepted, contextlib.suppress(OSError), socket.create_connection(target) as connected:
        back = threading.Thread(target=_copy, args=(connected, accepted), daemon=True)
        back.start()
        _copy(accepted, connected)
        back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


# -- components


def apiserver_line(flags: dict[str, list[str]], release: str) -> dict[str, list[str]]:
    """Its log is next to the key of service accounts, which every cluster has for itself."""
    flags = {**flags, "emulated-version": [release]}
    state = os.environ.get("KUBESKEW_STORE") or ""
    if not state:
        keys = flags.get("service-account-signing-key-file")
        if not keys:
            raise ComponentError("--service-account-signing-key-file is needed: the log is next to it")
        state = str(Path(keys[0]).parent / "kubeskew.db")
    flags["storage-url"] = [f"sqlite:///{state}"]
    if "runtime-config" in flags:
        flags["runtime-config"] = [runtime_config(flags["runtime-config"][-1])]
    return flags


def scheduler_flags(flags: dict[str, list[str]], config: Mapping[str, Any]) -> dict[str, list[str]]:
    """A kubeconfig that is named in the configuration file becomes a flag."""
    kubeconfig = (config.get("clientConnection") or {}).get("kubeconfig")
    return {**({"kubeconfig": [kubeconfig]} if kubeconfig else {}), **flags}


def kubelet_flags(flags: Mapping[str, Sequence[str]], config: Mapping[str, Any]) -> dict[str, list[str]]:
    """The flags of a kubelet by its flags and its KubeletConfiguration."""
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in (config.get("featureGates") or {}).items())
    authentication = config.get("authentication") or {}
    found = {
        "feature-gates": ",".join([*flags.get("feature-gates", ()), *([gates] if gates else ())]),
        "client-ca-file": (authentication.get("x509") or {}).get("clientCAFile", ""),
        "anonymous-auth": _text((authentication.get("anonymous") or {}).get("enabled", False)),
        "authentication-token-webhook": _text((authentication.get("webhook") or {}).get("enabled", True)),
        "authorization-mode": (config.get("authorization") or {}).get("mode", "Webhook"),
        **{name: values[-1] for name, values in flags.items() if name in ("kubeconfig", "v")},
    }
    return {name: [value] for name, value in found.items() if value}


def _text(on: bool) -> str:
    return str(on).lower()


def node_directories(layout: NodeLayout, kubelet: Path, cdi: Path) -> None:
    """The node's files are where upstream has them: plugins find their sockets there."""
    places = {
        layout.kubelet: kubelet,
        layout.cdi: cdi,
        layout.registry: kubelet / "plugins_registry",
        layout.plugins: kubelet / "plugins",
        layout.device_plugins: kubelet / "device-plugins",
        layout.pod_resources: kubelet / "pod-resources",
    }
    for link, target in places.items():
        target.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(target)


def _run_kubelet(flags: dict[str, list[str]], release: str) -> CommandLine:
    config = _file(flags.get("config"))
    node = (flags.get("hostname-override") or [socket.gethostname()])[-1]
    directory = Path((flags.get("root-dir") or [os.environ.get("KUBELET_ROOT", "/var/lib/kubelet")])[-1])
    # The paths of sockets are hardly longer than upstream's, by which drivers choose their names.
    root, sockets = directory / "kubeskew", directory / "s"
    layout = NodeLayout.under(root, node, sockets)
    node_directories(layout, directory, Path(os.environ.get("CDI_ROOT", "/var/run/cdi")))
    kubeconfig = Path(flags["kubeconfig"][-1])
    if not kubeconfig.exists():
        # The bootstrap identity of a local cluster is that of the node.
        shutil.copy(flags["bootstrap-kubeconfig"][-1], kubeconfig)
    key, certificate = directory / "pki" / "kubelet.key", directory / "pki" / "kubelet.crt"
    if not certificate.exists():
        made, key, certificate = key_pair(directory / "pki", "kubelet")
        request = serving_request(made, node, [node, host_ip(node), "localhost"])
        certificate.write_bytes(asyncio.run(_until_signed(kubeconfig, request)))
    nodes = layout.node / "nodes.yaml"
    nodes.write_text(json.dumps({"nodes": [{"name": node}]}))
    found = kubelet_flags(flags, config)
    port = free_port()  # of the node's own address; of the process, too
    relay(config.get("address") or "127.0.0.1", int(config.get("port") or 10250), (host_ip(node), port))
    found |= {
        "emulated-version": [release],
        "secure-port": [str(port)],
        "nodes-file": [str(nodes)],
        "root-dir": [str(root)],
        "runtime-dir": [str(sockets)],
        "tls-cert-file": [str(certificate)],
        "tls-private-key-file": [str(key)],
    }
    return translated(_command("kubelet"), found)


async def _until_signed(kubeconfig: Path, request: bytes) -> bytes:
    while True:
        try:
            return await signed_certificate(kubeconfig, request)
        except (StatusError, OSError) as error:
            print(f"serving certificate: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(1)


def _file(paths: Sequence[str] | None) -> dict[str, Any]:
    """The configuration that --config names; empty without one."""
    found: dict[str, Any] = yaml.safe_load(Path(paths[-1]).read_text()) if paths else {}
    return found


def _command(name: str) -> click.Command:
    from kubeskew.cli.main import COMMANDS as ALL

    module, _, attribute = ALL[name].partition(":")
    command: click.Command = getattr(__import__(module, fromlist=[attribute]), attribute)
    return command


def _health_port(flags: dict[str, list[str]]) -> int:
    """Gives the component a port of its own, which is returned, and serves the given one over TLS."""
    address = (flags.pop("bind-address", None) or ["127.0.0.1"])[-1]
    port = int((flags.pop("secure-port", None) or ["0"])[-1])
    behind = free_port()
    flags["secure-port"] = [str(behind)]
    if port:
        with tempfile.TemporaryDirectory() as directory:  # the server has read them at its start
            serve_health(address, port, behind, self_signed(Path(directory), "localhost"))
    return behind


# The upgrade test up to 1.35 waits for this line in the controller manager's log.
_SYNCED = '"Caches are synced" controller="resource_claim"'


def say_when_ready(port: int, line: str) -> threading.Thread:
    """Writes a line of upstream's log once the component behind the port is ready; the thread ends then."""

    def follow() -> None:
        while _answer(port, "/readyz")[0] != HTTPStatus.OK:
            time.sleep(0.2)
        print(line, file=sys.stderr, flush=True)

    following = threading.Thread(target=follow, name="readiness", daemon=True)
    following.start()
    return following


def _run_proxy(flags: Mapping[str, Sequence[str]]) -> int:
    address, _, port = (flags.get("healthz-bind-address") or ["0.0.0.0:10256"])[-1].rpartition(":")
    serve_health(address, int(port), 0, None)
    print("kube-proxy: the kubelets route Services; this is only healthy", file=sys.stderr, flush=True)
    threading.Event().wait()
    return 0


def main(called: Path, arguments: Sequence[str]) -> int:
    """Runs the component that the program is called after; gives its exit status."""
    if list(arguments) == ["--version"]:
        print(f"Kubernetes v{release_of(called, os.environ)}")
        return 0
    try:
        flags = given_flags(arguments)
        if called.name == "kube-proxy":
            return _run_proxy(flags)
        line = _line(called.name, flags, release_of(called, os.environ))
    except (ComponentError, OSError) as error:
        print(f"{called.name}: {error}", file=sys.stderr)
        return 1
    command = COMMANDS[called.name]
    if line.left_out:
        print(f"{called.name}: left out {' '.join(line.left_out)}", file=sys.stderr)
    print(f"kubeskew {command} {' '.join(line.arguments)}", file=sys.stderr, flush=True)
    sys.argv = ["kubeskew", command, *line.arguments]
    return int(kubeskew() or 0)


def _line(program: str, flags: dict[str, list[str]], release: str) -> CommandLine:
    if program not in COMMANDS:
        raise ComponentError(f"call it by a link of the name of a component: {', '.join(COMMANDS)}")
    if program == "kubelet":
        return _run_kubelet(flags, release)
    if program == "kube-apiserver":
        return translated(_command("apiserver"), apiserver_line(flags, release))
    flags["emulated-version"] = [release]
    if program == "kube-scheduler":
        flags = scheduler_flags(flags, _file(flags.get("config")))
    port = _health_port(flags)
    if program == "kube-controller-manager":
        say_when_ready(port, _SYNCED)
    return translated(_command(COMMANDS[program]), flags)

"""A real kube-apiserver above a store: etcd itself, or `kubeskew etcd` on an event log in a file."""

import asyncio
import csv
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.connection import Connection
from benchmarks.server import until_ready

TOKEN = "admin"
ROOT = Path(__file__).parents[1]
ETCD = os.environ.get("ETCD") or shutil.which("etcd")
STORES = ("etcd", "kubeskew etcd")
_READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running kube-apiserver, and the process of its store."""

    port: int
    store_port: int
    pid: int
    store_pid: int
    directory: Path

    def connection(self) -> Connection:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        return Connection(self.port, tls, TOKEN)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def store_command(store: str, directory: Path, port: int, url: str = "") -> Sequence[str]:
    """The command of a store; `url` is the log's, by default one in the directory."""
    client = f"http://127.0.0.1:{port}"
    if store == "etcd":
        peer = f"http://127.0.0.1:{free_port()}"
        urls = ("--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer)
        return (ETCD or "etcd", "--data-dir", str(directory / "etcd"), "--log-level", "error", *urls)
    log = url or f"sqlite:///{directory / 'events.db'}"
    return (sys.executable, "-m", "kubeskew", "etcd", "--storage", log, "--listen-client-urls", client)


def write_credentials(directory: Path) -> None:
    """Writes an administrator's token, and the key of service accounts' tokens."""
    with (directory / "tokens.csv").open("w") as tokens:
        csv.writer(tokens).writerow((TOKEN, "admin", "admin", "system:masters"))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (directory / "sa.key").write_bytes(key.private_bytes(*pem))


def _server_command(binaries: Path, minor: str, directory: Path, port: int, store: int) -> Sequence[str]:
    write_credentials(directory)
    file = directory / "sa.key"
    flags = {
        "etcd-servers": f"http://127.0.0.1:{store}",
        "storage-media-type": "application/json",
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": directory / "certificates",
        "token-auth-file": directory / "tokens.csv",
        "service-account-key-file": file,
        "service-account-signing-key-file": file,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "authorization-mode": "Node,RBAC",
        "service-cluster-ip-range": "10.96.0.0/16",
        "allow-privileged": "true",
        "event-ttl": "4s",
        "v": 1,
    }
    return (str(binaries / minor / "kube-apiserver"), *(f"--{name}={value}" for name, value in flags.items()))


@asynccontextmanager
async def real_server(
    binaries: Path, minor: str, store: str, url: str = "", extra: Sequence[str] = ()
) -> AsyncIterator[RealServer]:
    """A kube-apiserver of a minor above a store, both ended with the context."""
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="kubeskew-real-") as name:
        directory = Path(name)
        port, store_port = free_port(), free_port()
        commands = (
            store_command(store, directory, store_port, url),
            (*_server_command(binaries, minor, directory, port, store_port), *extra),
        )
        try:
            for command in commands:
                with (directory / f"{len(running)}.log").open("wb") as log:
                    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
                    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)
                running.append(process)
                await listening(process, store_port if len(running) == 1 else port, directory)
            server = RealServer(port, store_port, running[1].pid, running[0].pid, directory)
            async with asyncio.timeout(_READY_SECONDS):
                await until_ready(server)
            yield server
        finally:
            for process in reversed(running):
                process.terminate()
                try:
                    await asyncio.to_thread(process.wait, 10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


async def listening(process: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if process.poll() is not None:
                text = "".join(file.read_text() for file in sorted(directory.glob("*.log")))
                raise RuntimeError(text[-4000:]) from None
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return

"""An API server process of its own, with fresh data, for a benchmark."""

import asyncio
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from apimachinery.clock import SystemClock
from benchmarks.connection import Connection
from kubeskew import launching
from kubeskew.cluster import Cluster
from kubeskew.config import ClusterSpec
from kubeskew.state import StateDir


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server: where it listens, how to get in, and how long its start took."""

    port: int
    token: str
    ca: Path
    pid: int
    start_seconds: float

    def connection(self) -> Connection:
        tls = ssl.create_default_context(cafile=str(self.ca))
        return Connection(self.port, tls, self.token)

    def memory_mb(self) -> float:
        """Resident memory of the process, MB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


@asynccontextmanager
async def running_server() -> AsyncIterator[Server]:
    """An API server alone, TLS and authentication on, its data in a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="kubeskew-bench-") as name:
        directory = StateDir(Path(name) / "state")
        spec = ClusterSpec(nodes=())
        cluster = Cluster(directory, SystemClock(), lambda _: None)
        with directory.locked():
            state = cluster.create(spec)
        arguments = launching.arguments(directory, state, state.processes["apiserver"])
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "kubeskew", *arguments],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            port = state.processes["apiserver"].port
            server = Server(port, directory.token.read_text().strip(), directory.ca, process.pid, 0.0)
            await _ready(server)
            seconds = time.perf_counter() - started
            await _admit_pods(server)
            yield Server(port, server.token, server.ca, process.pid, seconds)
        finally:
            process.terminate()
            process.wait(20)


async def _ready(server: Server) -> None:
    while True:
        try:
            async with server.connection() as connection:
                status, _ = await connection.request("GET", "/readyz")
                if status == 200:
                    return
        except OSError:
            pass
        await asyncio.sleep(0.005)


async def _admit_pods(server: Server) -> None:
    """Make the service account that pods need; there is no controller manager to do it."""
    async with server.connection() as connection:
        account = b'{"metadata":{"name":"default"}}'
        status, answer = await connection.request(
            "POST", "/api/v1/namespaces/default/serviceaccounts", account
        )
        if status != 201:
            raise RuntimeError(answer.decode())

"""Processes of a cluster of their own, with fresh data, for a benchmark."""

import asyncio
import os
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from benchmarks.connection import Connection
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cluster import creation, launcher
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.creation import write_credentials
from kubeskew.cluster.ports import HeldPorts
from kubeskew.cluster.processes import environment
from kubeskew.cluster.state import StateDir


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


@dataclass(frozen=True, slots=True)
class Processes:
    """The server, and every process by its name, with the port of each."""

    server: Server
    running: Mapping[str, subprocess.Popen[bytes]]
    ports: Mapping[str, int]


@asynccontextmanager
async def running_server() -> AsyncIterator[Server]:
    """An API server alone, TLS and authentication on, its data in a directory that goes with it."""
    async with running_processes({"apiserver": ()}) as processes:
        yield processes.server


@asynccontextmanager
async def running_processes(
    extra_arguments: Mapping[str, Sequence[str]], gates: Mapping[str, bool] | None = None
) -> AsyncIterator[Processes]:
    """The API server and the other processes named, each with further arguments; ends them all."""
    with tempfile.TemporaryDirectory(prefix="kubeskew-bench-") as name:
        directory = StateDir(Path(name) / "state")
        with directory.locked(), HeldPorts(random.SystemRandom()) as held:
            spec = ClusterSpec(nodes=(), gates=gates or {})
            state = creation.create(directory, spec, held, SystemClock().now(), write_credentials)
        token = directory.token.read_text().strip()
        ports = {name: state.processes[name].port for name in extra_arguments}
        running: dict[str, subprocess.Popen[bytes]] = {}
        with _ended(running):
            for process, arguments in extra_arguments.items():
                started = time.perf_counter()
                known = launcher.arguments(directory, state, state.processes[process])
                running[process] = _started([*known, *arguments])
                if process == "apiserver":
                    server = Server(ports[process], token, directory.ca, running[process].pid, 0.0)
                    await until_ready(server)
                    server = replace(server, start_seconds=time.perf_counter() - started)
                    await _admit_pods(server)
            yield Processes(server, running, ports)


def _started(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kubeskew", *arguments],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment(os.environ)},
    )


@contextmanager
def _ended(running: Mapping[str, subprocess.Popen[bytes]]) -> Iterator[None]:
    """Ends all processes in `running`, the API server last."""
    try:
        yield
    finally:
        for process in reversed(list(running.values())):
            process.terminate()
            process.wait(20)


class Connects(Protocol):
    """An API server that the benchmarks can connect to."""

    def connection(self) -> Connection: ...


async def until_ready(server: Connects) -> None:
    """Waits until the server says that it is ready."""
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
    """Creates the service account that pods need; there is no controller manager to do it."""
    async with server.connection() as connection:
        account = b'{"metadata":{"name":"default"}}'
        status, answer = await connection.request(
            "POST", "/api/v1/namespaces/default/serviceaccounts", account
        )
        if status != 201:
            raise RuntimeError(answer.decode())

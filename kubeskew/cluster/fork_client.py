"""Starts processes by forking interpreters that have imported the modules already.

Importing is most of a component's start. A fork server (`kubeskew/cli/fork_server.py`) imports once, for all
the processes that a command or a matrix starts; it ends with the command, its children live on. There are two
of them, so that the API server need not wait for the modules of the others, nor these for its own.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.processes import (
    ExecutedProcesses,
    Identity,
    KernelProcesses,
    Processes,
    birth,
    command,
    open_log,
)
from kubeskew.cluster.processes import environment as components_environment

MODULE = "kubeskew.cli.fork_server"
ARGUMENT_BYTES = 4000  # longest text of `ps`: Linux keeps a page for it
_ANSWER_BYTES = 4096
_SERVERS = (
    ("apiserver",),
    (
        *("controller-manager", "scheduler", "kubelet", "driver", "driver-controller"),
        *("metrics-server", "network", "shim"),
    ),
)


@contextmanager
def component_processes(*kinds: str, often: bool = False, dependent: bool = False) -> Iterator[Processes]:
    """Chooses how components are started on this system, and ends the fork servers at exit. They prepare for
    these kinds at once.

    `often` and `dependent` are those of ForkedProcesses.
    """
    if sys.platform != "linux":  # elsewhere the system's libraries may not work in a child that only forks
        yield ExecutedProcesses()
        return
    processes = ForkedProcesses(often=often, dependent=dependent)
    try:
        processes.prepare(kinds, components_environment(os.environ))
        yield processes
    finally:
        processes.close()


class ForkedProcesses(KernelProcesses):
    """Uses fork servers, which `close` ends.

    With `often`, they also import modules that components need later: useful for a command that starts
    components repeatedly. `dependent` processes end with their fork server, so that a killed command leaves
    none behind.
    """

    def __init__(self, *, often: bool = False, dependent: bool = False) -> None:
        self._often = often
        self._dependent = dependent
        self._servers: dict[str, _ForkServer] = {}

    def prepare(self, kinds: Collection[str], environment: Mapping[str, str]) -> None:
        """Fork servers begin to import the modules of these kinds."""
        for group in _SERVERS:
            wanted = [kind for kind in group if kind in kinds]
            if group[0] not in self._servers and wanted:
                server = _ForkServer(wanted, environment, often=self._often)
                self._servers.update(dict.fromkeys(group, server))

    async def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Identity:
        kind = arguments[0]
        if kind in self._servers and self._servers[kind].ended:
            self._remove(self._servers[kind])
        self.prepare([kind], environment)
        return await self._servers[kind].fork(arguments, log, environment, dependent=self._dependent)

    def close(self) -> None:
        """Processes that were forked go on."""
        while self._servers:
            self._remove(next(iter(self._servers.values())))

    def _remove(self, server: "_ForkServer") -> None:
        self._servers = {kind: other for kind, other in self._servers.items() if other is not server}
        server.close()


class _ForkServer:
    def __init__(self, kinds: Collection[str], environment: Mapping[str, str], *, often: bool) -> None:
        self._environment = {**os.environ, **environment}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            options = ["--often"] if often else []
            room = " " * ARGUMENT_BYTES  # for the arguments of its component
            self._process = subprocess.Popen(  # noqa: S603 - our own entry point
                command(MODULE, str(theirs.fileno()), *options, *kinds, room),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the command, which ends its processes
                env=self._environment,
            )
        self._socket.setblocking(False)
        self._asking = asyncio.Lock()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    async def fork(
        self, arguments: Sequence[str], log: Path, environment: Mapping[str, str], *, dependent: bool
    ) -> Identity:
        wanted = {**os.environ, **environment}
        known = self._environment
        changed = {n: wanted.get(n) for n in {**known, **wanted} if wanted.get(n) != known.get(n)}
        request = {
            "arguments": list(arguments),
            "environment": changed,  # None for variables that were removed
            "directory": str(Path.cwd()),
            "dependent": dependent,
        }
        async with self._asking:
            with open_log(log) as output:
                asking = asyncio.ensure_future(self._ask(json.dumps(request).encode(), output.fileno()))
                try:
                    answer = await asyncio.shield(asking)
                except asyncio.CancelledError:  # the process is forked nevertheless, and only we know it
                    if answer := await asking:
                        os.kill(json.loads(answer), signal.SIGKILL)
                    raise
        if not answer:
            raise ClusterError(
                f"cannot start {arguments[0]}: the process that forks components has ended; try again"
            )
        pid: int = json.loads(answer)
        return pid, birth(pid)

    async def _ask(self, request: bytes, output: int) -> bytes:
        """Empty if the fork server has ended."""
        try:
            socket.send_fds(self._socket, [request], [output])
            return await asyncio.get_running_loop().sock_recv(self._socket, _ANSWER_BYTES)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait()

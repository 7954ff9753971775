"""Forks processes from interpreters which have imported their modules already.

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
ARGUMENT_BYTES = 4000  # what `ps` shows at most: Linux keeps a page for it
_ANSWER_BYTES = 4096
_SERVERS = (
    ("apiserver",),
    ("controller-manager", "scheduler", "kubelet", "driver", "driver-controller", "metrics-server"),
)


@contextmanager
def component_processes(*kinds: str, often: bool = False, dependent: bool = False) -> Iterator[Processes]:
    """Gives what starts components here, and ends what that needs. It prepares for these kinds at once.

    `often` and `dependent` are as of ForkedProcesses.
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
    """Starts processes by way of fork servers, which `close` ends.

    With `often`, the fork servers import also what components need only later: of use to who starts each of
    them again and again. `dependent` processes end with their fork server, so that a command which is killed
    leaves none behind.
    """

    def __init__(self, *, often: bool = False, dependent: bool = False) -> None:
        self._often = often
        self._dependent = dependent
        self._servers: dict[str, _ForkServer] = {}

    def prepare(self, kinds: Collection[str], environment: Mapping[str, str]) -> None:
        """Has fork servers begin to import what components of these kinds need."""
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
        """Ends the fork servers; what they have forked goes on."""
        while self._servers:
            self._remove(next(iter(self._servers.values())))

    def _remove(self, server: "_ForkServer") -> None:
        self._servers = {kind: other for kind, other in self._servers.items() if other is not server}
        server.close()


class _ForkServer:
    """Asks one fork server over its socket."""

    def __init__(self, kinds: Collection[str], environment: Mapping[str, str], *, often: bool) -> None:
        self._environment = {**os.environ, **environment}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            options = ["--often"] if often else []
            room = " " * ARGUMENT_BYTES  # for the arguments of what it becomes
            self._process = subprocess.Popen(  # noqa: S603 - our own entry point
                command(MODULE, str(theirs.fileno()), *options, *kinds, room),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the command, which has things to end
                env=self._environment,
            )
        self._socket.setblocking(False)
        self._asking = asyncio.Lock()

    @property
    def ended(self) -> bool:
        """Returns whether it has ended, by itself or by somebody."""
        return self._process.poll() is not None

    async def fork(
        self, arguments: Sequence[str], log: Path, environment: Mapping[str, str], *, dependent: bool
    ) -> Identity:
        wanted = {**os.environ, **environment}
        known = self._environment
        changed = {n: wanted.get(n) for n in {**known, **wanted} if wanted.get(n) != known.get(n)}
        request = {
            "arguments": list(arguments),
            "environment": changed,  # None for what is there no more
            "directory": str(Path.cwd()),
            "dependent": dependent,
        }
        async with self._asking:
            with open_log(log) as output:
                asking = asyncio.ensure_future(self._ask(json.dumps(request).encode(), output.fileno()))
                try:
                    answer = await asyncio.shield(asking)
                except asyncio.CancelledError:  # the process is forked all the same, and only we know of it
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
        """Returns the answer; empty if the fork server has ended."""
        try:
            socket.send_fds(self._socket, [request], [output])
            return await asyncio.get_running_loop().sock_recv(self._socket, _ANSWER_BYTES)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait()

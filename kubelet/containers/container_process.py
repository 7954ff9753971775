"""One container from within: its files, its program, and commands that run beside it."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.execution.files import File, FileSystem, Mount, Tree
from kubeskew.kubelet.containers.execution.process import Input, LiveInput, Machine, Output, Process
from kubeskew.kubelet.containers.execution.simulating import (
    STDERR,
    STDOUT,
    OutputLine,
    ProgramEnd,
    Simulation,
)
from kubeskew.kubelet.containers.execution.tasks import Tasks
from kubeskew.kubelet.containers.execution.waiting import ExitError
from kubeskew.kubelet.containers.images import has_unknown_programs, image_of, is_busybox
from kubeskew.kubelet.containers.network import ContainerNetwork, HTTPAnswer, HTTPRequest, PodNetwork
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.containers.shell import interpreter, lookup
from kubeskew.kubelet.containers.shell.statements import BreakError, ReturnError

_OVERFLOWN = 139  # 128 + SIGSEGV: the stack is full
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_COMMAND_PID = 101  # the first of commands beside the program


@dataclass(frozen=True, slots=True)
class Setting:
    """The arguments and surroundings that a program is started with."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    hostname: str
    directory: str = "/"
    address: str = ""
    stdin: bool = False
    tty: bool = False
    devices: Sequence[str] = ()  # device files beside those that every container has
    image: str = ""

    def variables(self) -> dict[str, str]:
        """Returns the whole environment: what every container has, and what its spec says."""
        common = {"PATH": _PATH, "HOSTNAME": self.hostname, **({"TERM": "xterm"} if self.tty else {})}
        common |= image_of(self.image).variables
        return {**common, **self.environment, "HOME": self.environment.get("HOME", "/root")}

    @property
    def runs_here(self) -> bool:
        """Returns whether the program is one that the fake containers have, and not one of the image."""
        if not self.argv:
            return False
        return self.has(self.argv[0]) or self.argv[0].strip("/") in image_of(self.image).files

    def has(self, program: str) -> bool:
        """Returns whether there is a program of that name; directories before it are ignored."""
        return lookup.knows(program) or program.rsplit("/", 1)[-1] in image_of(self.image).programs


_DIRECTORIES = ("tmp", "root", "bin", "home", "proc", "sys", "usr/bin", "var/log", "var/run", "opt", "mnt")


def new_files(setting: Setting, mounts: Sequence[Mount], now: datetime) -> FileSystem:
    """Returns the files of a fresh container: a few that every image has, and its mounts."""
    hosts = f"127.0.0.1\tlocalhost\n{setting.address}\t{setting.hostname}\n"
    known = dict(image_of(setting.image).files) | {
        "etc/hostname": f"{setting.hostname}\n",
        "etc/hosts": f"# Kubernetes-managed hosts file.\n{hosts}",
        "etc/resolv.conf": "search default.svc.cluster.local svc.cluster.local cluster.local\n"
        "nameserver 10.96.0.10\noptions ndots:5\n",
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "etc/group": "root:x:0:\n",
        "etc/os-release": 'NAME="kubeskew"\nID=kubeskew\n',
        "dev/null": "",
    }
    root = Tree({path: text.encode() for path, text in known.items()}, now.timestamp())
    for path in _DIRECTORIES:
        root.put(path, File(None, 0o755, now.timestamp()))
    for path in setting.devices:
        root.put(path.strip("/"), File(b"", 0o666, now.timestamp()))
    for mount in mounts:
        root.put(mount.path.strip("/"), File(None, 0o755, now.timestamp()))
    if setting.directory.strip("/") and setting.directory.strip("/") not in root.entries:
        root.put(setting.directory.strip("/"), File(None, 0o755, now.timestamp()))
    return FileSystem(root, [*mounts])


def new_simulation(
    setting: Setting,
    files: FileSystem,
    started_at: datetime,
    network: PodNetwork | None = None,
    container: str = "",
) -> Simulation:
    """Returns the program of a container, not yet begun; `container` is its id, `network` its pod's."""
    pod_network = network or PodNetwork()

    def ask(simulation: Simulation, port: int, request: HTTPRequest) -> HTTPAnswer | None:
        listener = pod_network.at(port)
        return listener.answer(request, simulation.now) if listener is not None else None

    def program(simulation: Simulation) -> Coroutine[Any, Any, int]:
        tasks = Tasks(lambda: simulation.now)
        simulation.tasks = tasks
        machine = Machine(
            setting.hostname,
            files,
            lambda: simulation.now,
            tasks,
            ContainerNetwork(pod_network, container, simulation.enter, functools.partial(ask, simulation)),
            is_main=True,
            assumes_programs=has_unknown_programs(setting.image),
            is_busybox=is_busybox(setting.image),
            uptime=lambda: (simulation.now - started_at).total_seconds(),
            listed=lambda: listed_tasks(tasks),
            programs=image_of(setting.image).programs,
        )
        process = Process(
            machine,
            setting.variables(),
            LiveInput(),
            functools.partial(simulation.write, STDOUT),
            functools.partial(simulation.write, STDERR),
            setting.directory,
            is_terminal=setting.tty,
        )
        return run_program(process, setting.argv)

    return Simulation(program, started_at, tty=setting.tty)


def listed_tasks(tasks: Tasks) -> list[tuple[int, str]]:
    """Returns (pid, command) of each task."""
    return [(task.pid, task.name) for task in tasks.running()]


async def run_program(process: Process, argv: Sequence[str]) -> int:
    """Runs a command to its end, with all that it puts into the background; returns its exit code."""
    return await process.machine.tasks.run(_run_whole(process, argv), " ".join(argv))


async def _run_whole(process: Process, argv: Sequence[str]) -> int:
    """Runs a command; turns whatever it raises into an exit code."""
    try:
        return await interpreter.run(process, [*argv])
    except (ExitError, ReturnError) as end:
        return end.code
    except RecursionError:
        return _OVERFLOWN
    except BreakError:
        return 0


@dataclass(slots=True)
class ContainerProcess:
    """One attempt of a container, from within. Call `advance` before reading its state."""

    sandbox: Sandbox
    container: Container
    setting: Setting
    files: FileSystem
    clock: Clock
    ended: Callable[[ProgramEnd], None]  # the program ended by itself
    catch_up: Callable[[], None] = lambda: None  # makes all programs of the pod run up to now
    on_input: Callable[[bytes], None] = lambda _: None  # is called with bytes for the program
    network: PodNetwork = field(default_factory=PodNetwork)
    # Asks from outside of the pod's programs who listens at a port.
    ask: Callable[[int, HTTPRequest], HTTPAnswer | None] = lambda _port, _request: None
    simulation: Simulation | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    stdin_closed: bool = False
    commands: list[Tasks] = field(default_factory=list)  # commands that run beside the program
    _signals: list[tuple[datetime, str]] = field(default_factory=list)
    _next_pid: int = _FIRST_COMMAND_PID

    def __post_init__(self) -> None:
        if self.setting.runs_here:
            self.simulation = new_simulation(
                self.setting, self.files, self.container.started_at, self.network, self.container.id
            )

    # -- the program

    @property
    def due_at(self) -> datetime | None:
        """Returns when the program has to run next; None if it waits for something from outside."""
        if self.simulation is None or self.simulation.is_closed:
            return None
        moments = [self.simulation.wakes_at, self.container.ends_at, *(at for at, _ in self._signals[:1])]
        return min((moment for moment in moments if moment is not None), default=None)

    def run_until(self, until: datetime) -> None:
        """Lets the program run up to a moment, or to the container's end."""
        simulation = self.simulation
        if simulation is None or simulation.is_closed:
            return
        before, ends_at = simulation.steps, self.container.ends_at
        limit = until if ends_at is None else min(until, ends_at)
        while self._signals and self._signals[0][0] <= limit:
            at, name = self._signals.pop(0)
            simulation.advance(at)
            simulation.signal(name, at)
        simulation.advance(limit)
        if simulation.ending is not None:
            self.ended(simulation.ending)
        elif ends_at is not None and ends_at <= until:
            simulation.close()
        if simulation.steps != before or simulation.is_closed:
            self.tell()

    def handles(self, signal: str) -> bool:
        """Returns whether the program has a trap for it."""
        tasks = self.simulation.tasks if self.simulation is not None else None
        return tasks is not None and signal in tasks.main_traps

    def signal(self, name: str, at: datetime) -> None:
        """Sends the program a signal that it has a trap for."""
        self._signals.append((at, name))
        self._signals.sort()

    def advance(self) -> None:
        """Lets the programs of the pod run up to now."""
        self.catch_up()

    def feed(self, data: bytes) -> None:
        """Gives bytes to the program's standard input; empty bytes end it.

        They are lost if it does not read.
        """
        self.advance()
        self.on_input(data)
        self.take_input(data, self.clock.now())

    def take_input(self, data: bytes, now: datetime) -> None:
        if not data:
            self.stdin_closed = True
        if self.simulation is not None and self.simulation.waits_for_input:
            self.simulation.feed(data, now)
            while self.stdin_closed and self.simulation.waits_for_input:
                self.simulation.feed(b"", now)
            if self.simulation.ending is not None:
                self.ended(self.simulation.ending)
        self.tell()

    def repeat(self, time: datetime, output: Sequence[tuple[str, bytes]]) -> None:
        """Writes again what the program wrote when it was asked from outside."""
        if self.simulation is not None and not self.simulation.is_closed:
            self.simulation.enter(time)
            for stream, data in output:
                self.simulation.write(stream, data)

    def lines(self) -> list[OutputLine]:
        """Returns the kept lines of the program's output."""
        self.advance()
        if self.simulation is None:
            return []
        return [*self.simulation.lines, *self.simulation.pending()]

    # -- commands beside it

    def process(
        self, stdin: Input, stdout: Output, stderr: Output, *, tty: bool, files: FileSystem | None = None
    ) -> Process:
        """Makes the process of a command that runs beside the program."""
        environment = self.setting.variables() | ({"TERM": "xterm"} if tty else {})
        tasks = Tasks(self.clock.now, self._next_pid)
        self._next_pid += 10
        machine = Machine(
            self.setting.hostname,
            files or self.files,
            self.clock.now,
            tasks,
            ContainerNetwork(self.network, self.container.id, lambda _now: None, self.ask),
            terminate=self._terminate,
            assumes_programs=False,
            is_busybox=is_busybox(self.setting.image),
            uptime=lambda: (self.clock.now() - self.container.started_at).total_seconds(),
            listed=lambda: [*self._listed(), *listed_tasks(tasks)],
            programs=image_of(self.setting.image).programs,
        )
        return Process(machine, environment, stdin, stdout, stderr, self.setting.directory, is_terminal=tty)

    def recording(self, changed: Callable[[Tree, str], None]) -> FileSystem:
        """Returns the container's files for a command from outside; `changed` is called with each change."""
        return replace(self.files, changed=changed)

    def _listed(self) -> list[tuple[int, str]]:
        if self.simulation is not None and self.simulation.tasks is not None:
            return listed_tasks(self.simulation.tasks)
        return [(1, " ".join(self.setting.argv) or "(container)")]

    def _terminate(self, signal: str) -> None:
        now = self.clock.now()
        if self.handles(signal):
            self.signal(signal, now)
            self.advance()
            return
        lives = self.container.stops_after
        if lives is not None:
            self.ended(ProgramEnd(now + timedelta(seconds=lives), 0))
            self.tell()

    # -- news

    def tell(self) -> None:
        """Wakes those who wait in `changed`."""
        self.news.set()
        self.news = asyncio.Event()

    @property
    def running(self) -> bool:
        return self.container.running(self.clock.now())

    async def changed(self, most_seconds: float = 3600.0) -> None:
        """Returns when the program may have written something, or the container has ended."""
        news = self.news
        moments = [self.container.ends_at, self.due_at]
        soonest = min((moment for moment in moments if moment is not None), default=None)
        seconds = most_seconds
        if soonest is not None:
            seconds = min(seconds, max(0.001, (soonest - self.clock.now()).total_seconds()))
        waiting = asyncio.ensure_future(news.wait())
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

"""What goes on inside a container: its files, what its program writes, commands that run beside it."""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from apimachinery.clock import Clock
from kubelet.sandbox import Container, Sandbox
from kubelet.shell import interpreter
from kubelet.shell.files import File, FileSystem, Mount, Tree
from kubelet.shell.interpreter import BreakError
from kubelet.shell.process import ExitError, Input, LiveInput, Machine, Output, Process
from kubelet.shell.simulating import STDERR, STDOUT, Ending, Line, Simulation

_FORESEEN_STEPS = 1_000  # a program that has not ended by then is taken to run until it is stopped
_FORESEEN_TIME = timedelta(days=3650)
_OVERFLOWN = 139  # 128 + SIGSEGV: the stack is full
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a program is started with."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    hostname: str
    directory: str = "/"
    address: str = ""
    stdin: bool = False
    tty: bool = False
    devices: Sequence[str] = ()  # paths of device files beside those that every container has

    def variables(self) -> dict[str, str]:
        """The whole environment: what every container has, and what its spec says."""
        common = {"PATH": _PATH, "HOSTNAME": self.hostname, **({"TERM": "xterm"} if self.tty else {})}
        return {**common, **self.environment, "HOME": self.environment.get("HOME", "/root")}


def new_files(setting: Setting, mounts: Sequence[Mount], now: datetime) -> FileSystem:
    """The files of a fresh container: a few that every image has, and its mounts."""
    hosts = f"127.0.0.1\tlocalhost\n{setting.address}\t{setting.hostname}\n"
    known = {
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
    for path in ("tmp", "root", "bin", "home", "proc", "sys", "usr/bin", "var/log", "var/run", "opt", "mnt"):
        root.put(path, File(None, 0o755, now.timestamp()))
    for path in setting.devices:
        root.put(path.strip("/"), File(b"", 0o666, now.timestamp()))
    for mount in mounts:
        root.put(mount.path.strip("/"), File(None, 0o755, now.timestamp()))
    return FileSystem(root, [*mounts])


def foresee(setting: Setting, files: FileSystem, now: datetime) -> Ending | None:
    """How and when the program ends by itself; None if it runs on, as far as can be seen."""
    if not setting.argv or not interpreter.knows(setting.argv[0]):
        return None
    simulation = _simulation(setting, files, now)
    simulation.advance(now + _FORESEEN_TIME, _FORESEEN_STEPS)
    return simulation.ending


def _simulation(setting: Setting, files: FileSystem, started_at: datetime) -> Simulation:
    async def program(simulation: Simulation) -> int:
        machine = Machine(setting.hostname, files, lambda: simulation.now, is_main=True)
        process = Process(
            machine,
            setting.variables(),
            LiveInput(),
            functools.partial(simulation.write, STDOUT),
            functools.partial(simulation.write, STDERR),
            setting.directory,
            is_terminal=setting.tty,
        )
        return await run_program(process, setting.argv)

    return Simulation(program, started_at, tty=setting.tty)


async def run_program(process: Process, argv: Sequence[str]) -> int:
    """A command from its beginning to its end, whatever it raises on the way."""
    try:
        return await interpreter.run(process, [*argv])
    except ExitError as end:
        return end.code
    except RecursionError:
        return _OVERFLOWN
    except BreakError:
        return 0


@dataclass(slots=True)
class Inside:
    """One attempt of a container, from within. `advance` before looking."""

    sandbox: Sandbox
    container: Container
    setting: Setting
    files: FileSystem
    clock: Clock
    ended: Callable[[Ending], None]  # the program ended by itself where that could not be foreseen
    simulation: Simulation | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    stdin_closed: bool = False

    def __post_init__(self) -> None:
        if self.setting.argv and interpreter.knows(self.setting.argv[0]):
            self.simulation = _simulation(self.setting, self.files, self.container.started_at)

    def advance(self) -> None:
        """Let the program run up to now, or to the container's end."""
        if self.simulation is None:
            return
        now, ends_at = self.clock.now(), self.container.ends_at
        self.simulation.advance(now if ends_at is None else min(now, ends_at))
        if ends_at is not None and ends_at <= now:
            self.simulation.close()
        elif self.simulation.ending is not None:
            self.ended(self.simulation.ending)

    def feed(self, data: bytes) -> None:
        """Bytes for the program's standard input; empty is its end. If it does not read, they are lost."""
        self.advance()
        if not data:
            self.stdin_closed = True
        if self.simulation is not None and self.simulation.waits_for_input:
            self.simulation.feed(data, self.clock.now())
            while self.stdin_closed and self.simulation.waits_for_input:
                self.simulation.feed(b"", self.clock.now())
            if self.simulation.ending is not None:
                self.ended(self.simulation.ending)
        self.tell()

    def lines(self) -> list[Line]:
        """What the program has written so far, of what is kept."""
        self.advance()
        if self.simulation is None:
            return []
        return [*self.simulation.lines, *self.simulation.pending()]

    def process(self, stdin: Input, stdout: Output, stderr: Output, *, tty: bool) -> Process:
        """What a command run beside the program has."""
        environment = self.setting.variables() | ({"TERM": "xterm"} if tty else {})
        machine = Machine(self.setting.hostname, self.files, self.clock.now, terminate=self._terminate)
        return Process(machine, environment, stdin, stdout, stderr, self.setting.directory, is_terminal=tty)

    def _terminate(self) -> None:
        lives = self.container.stops_after
        if lives is not None:
            self.ended(Ending(self.clock.now() + timedelta(seconds=lives), 0))
            self.tell()

    def tell(self) -> None:
        """Wake those who wait for `changed`."""
        self.news.set()
        self.news = asyncio.Event()

    @property
    def running(self) -> bool:
        return self.container.running(self.clock.now())

    async def changed(self, most_seconds: float = 3600.0) -> None:
        """Until the program may have written something, or the container has ended."""
        moments = [self.container.ends_at]
        if self.simulation is not None:
            moments.append(self.simulation.wakes_at)
        soonest = min((moment for moment in moments if moment is not None), default=None)
        seconds = most_seconds
        if soonest is not None:
            seconds = min(seconds, max(0.001, (soonest - self.clock.now()).total_seconds()))
        waiting = asyncio.ensure_future(self.news.wait())
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

"""Processes that are tasks of one event loop: started with the arguments of real ones, and killed for good.

Everything in a process runs in its own context. Nothing runs any more in a process that has been killed. A
supervisor starts processes again that faults have killed, as an init system or a kubelet with static pods
would.
"""

import asyncio
import contextlib
import contextvars
import functools
import logging
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import click

from kubeskew.apimachinery.process.machine import MACHINE
from kubeskew.apimachinery.process.runtime import name_levels
from kubeskew.apiserver.cli import apiserver
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.processes import STOP_SECONDS, Identity
from kubeskew.controllers.cli import controller_manager
from kubeskew.kubelet.cli import kubelet
from kubeskew.kubelet.drivers.cli import driver, driver_controller
from kubeskew.metricsserver.cli import metrics_server
from kubeskew.scheduler.cli import scheduler


class Supervisor:
    """Starts processes again that its faults have killed; those of other faults stay down."""

    def __init__(self) -> None:
        self._seconds: Mapping[str, float | None] = {}
        self._down: dict[int, Callable[[], object]] = {}
        self._killed = 0

    def start_again(self, seconds: Mapping[str, float | None]) -> None:
        """Seconds by fault until its victims are started again. None: when all is healed."""
        self._seconds = seconds

    def takes(self, fault: str) -> bool:
        """Victims of the fault are started again."""
        return fault in self._seconds

    def killed(self, fault: str, start: Callable[[], object]) -> None:
        """A fault of the supervisor's has killed a process, which `start` starts again."""
        self._killed += 1
        number, seconds = self._killed, self._seconds[fault]
        self._down[number] = start
        if seconds is not None:
            nobody = contextvars.Context()  # whoever was killed runs nothing more
            asyncio.get_running_loop().call_later(seconds, self._start, number, context=nobody)

    def _start(self, number: int) -> None:
        start = self._down.pop(number, None)
        if start is not None:
            start()

    def start_all(self) -> None:
        for number in [*self._down]:
            self._start(number)


COMMANDS: Mapping[str, click.Command] = {
    "apiserver": apiserver,
    "controller-manager": controller_manager,
    "scheduler": scheduler,
    "kubelet": kubelet,
    "driver": driver,
    "driver-controller": driver_controller,
    "metrics-server": metrics_server,
}
Handler = Callable[[], object]
START = datetime(2026, 1, 1, tzinfo=UTC)  # of every simulation

CURRENT: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """One start of a component. Functions in `ended` are called when it ends."""

    def __init__(self, pid: int, name: str, log: Path, arguments: Sequence[str] = ()) -> None:
        self.pid = pid
        self.name = name
        self.arguments = arguments
        self.alive = True
        self.returns = False  # it is dead, and will be started again under its pid
        self.stopping = False  # it is being stopped: nobody starts it again
        self.log = log
        self.level = logging.INFO  # the lowest level that it logs
        self.seconds = 0.0  # of CPU, where the loop measures it
        self.handlers: dict[int, Handler] = {}
        self.tasks: WeakValueDictionary[int, asyncio.Task[Any]] = WeakValueDictionary()  # by their numbers
        self._kept: list[asyncio.Task[Any]] = []
        self.ended: dict[Callable[[], None], None] = {}
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)

    def log_at(self, level: int) -> None:
        """Sets the lowest level that it logs. Loggers, which all share, let through what any of them
        wants."""
        self.level = level
        name_levels()
        root = logging.getLogger()
        root.setLevel(min(root.level, level))

    def spawn(self, work: Coroutine[Any, Any, Any], name: str | None = None) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(work, name=name, context=self.context)

    def send(self, number: int) -> None:
        """Delivers a signal; without a handler SIGTERM and SIGINT end the process, others do nothing."""
        if not self.alive:
            return
        if number == signal.SIGKILL:
            self.end()
        elif number in self.handlers:
            asyncio.get_running_loop().call_soon(self.handlers[number], context=self.context)
        elif number in (signal.SIGTERM, signal.SIGINT):
            self.end()

    def end(self) -> None:
        """None of its callbacks runs any more."""
        if not self.alive:
            return
        self.alive = False
        # Their objects are kept: one that is collected runs its `finally` blocks.
        self._kept = [*self.tasks.values()]
        ended, self.ended = self.ended, {}
        for callback in ended:
            callback()

    def forget(self) -> None:
        """Drops references, when nothing runs any more."""
        for task in self.tasks.values():
            if task.cancelled():  # has its exception, and with it all frames that were left by that
                with contextlib.suppress(asyncio.CancelledError):
                    task.result()
        self._kept.clear()
        self.handlers.clear()
        self.ended.clear()


class ProcessLogs(logging.Handler):
    """Writes log lines of a process to its file; `others` get lines from outside of processes."""

    def __init__(self, others: Sequence[logging.Handler] = ()) -> None:
        super().__init__()
        self._others = others

    def emit(self, record: logging.LogRecord) -> None:
        process = CURRENT.get()
        if process is None:
            for handler in self._others:
                handler.handle(record)
        elif record.levelno >= process.level:
            moment = START + timedelta(seconds=asyncio.get_running_loop().time())
            time = moment.isoformat(timespec="milliseconds").removesuffix("+00:00")
            with contextlib.suppress(FileNotFoundError):  # the cluster's directory is gone
                write_log(process, f"{time}Z {record.levelname[0]} {record.name}: {self.format(record)}")


def write_log(process: Process, text: str) -> None:
    with process.log.open("a") as file:
        file.write(f"{text}\n")


class SimulatedProcesses:
    """`cluster.processes.Processes` in this event loop. `machine_of` gives each process its machine.

    A pid counts as alive while the supervisor is going to start its process again.
    """

    def __init__(self, machine_of: Callable[[Process], object]) -> None:
        self._machine_of = machine_of
        self.supervisor = Supervisor()
        self._processes: dict[int, Process] = {}
        self.started: list[Process] = []  # all that ever were
        self._left_down: dict[int, Process] = {}  # killed by faults that nobody heals

    def prepare(self, kinds: Collection[str], environment: Mapping[str, str]) -> None:
        """Does nothing: all modules are there."""

    async def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Identity:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kind = arguments[0]
        name = log.stem if log.stem.startswith(kind) else f"{kind}/{log.stem}"
        pid = len(self._processes) + 1
        self._launch(Process(pid, name, log, [*arguments]))
        return pid, str(pid)

    def _launch(self, process: Process) -> None:
        self._processes[process.pid] = process
        self.started.append(process)
        process.context.run(self._invoke, process)

    def _invoke(self, process: Process) -> None:
        kind, *arguments = process.arguments
        command = COMMANDS[kind]
        try:
            with command.make_context(kind, arguments) as context:
                context.meta[MACHINE] = self._machine_of(process)
                command.invoke(context)
        except click.ClickException as error:
            raise ClusterError(f"{process.name} cannot start: {error.format_message()}") from error

    def running(self, pid: int) -> Process | None:
        """None if no process of the pid runs."""
        process = self._processes.get(pid)
        return process if process is not None and process.alive else None

    def kill(self, process: Process, fault: str) -> None:
        """Ends a process because of a fault; the supervisor starts it again if the fault is one of its own,
        and the process was not being stopped."""
        process.end()
        if process.stopping:
            return
        if self.supervisor.takes(fault):
            process.returns = True
            self.supervisor.killed(fault, functools.partial(self._again, process))
        else:
            self._left_down[process.pid] = process

    def take_left_down(self, pids: Collection[int]) -> list[Process]:
        """Victims of faults that are not the supervisor's, once, if their pids are still those of components:
        none that has been started again as another process."""
        left, self._left_down = self._left_down, {}
        return [former for pid, former in left.items() if pid in pids]

    def start_again(self, former: Process) -> None:
        """Raises ClusterError if the process does not start."""
        self._launch(Process(former.pid, former.name, former.log, former.arguments))

    def _again(self, former: Process) -> None:
        if former.returns:
            former.returns = False
            self.start_again(former)

    def alive(self, pid: int, born: str) -> bool:
        if not born or pid not in self._processes:
            return False
        process = self._processes[pid]
        return process.alive or process.returns

    def is_up(self, pid: int, born: str) -> bool:
        return bool(born) and self.running(pid) is not None

    def send(self, pid: int, born: str, number: signal.Signals) -> None:
        if self.alive(pid, born):
            self._processes[pid].send(number)

    async def stop(self, pid: int, born: str, *, kill: bool = False) -> bool:
        if not self.alive(pid, born):
            return True
        process = self._processes[pid]
        if process.returns:
            process.returns = False
            return True
        process.stopping = True
        gone = asyncio.Event()
        process.ended[gone.set] = None
        process.send(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await gone.wait()
        except TimeoutError:
            process.end()
            return False
        return not kill

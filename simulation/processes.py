"""Processes that are tasks of one event loop: started with the arguments of real ones, and killed for good.

All that a process does runs in its own context. Of a process that has been killed nothing runs any more.
"""

import asyncio
import contextvars
import logging
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import click

from kubeskew.apimachinery.process.machine import MACHINE
from kubeskew.apiserver.cli import apiserver
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.processes import STOP_SECONDS, Identity
from kubeskew.controllers.cli import controller_manager
from kubeskew.kubelet.cli import kubelet
from kubeskew.kubelet.drivers.cli import driver
from kubeskew.kubelet.drivers.controller.cli import driver_controller
from kubeskew.scheduler.cli import scheduler

COMMANDS: Mapping[str, click.Command] = {
    "apiserver": apiserver,
    "controller-manager": controller_manager,
    "scheduler": scheduler,
    "kubelet": kubelet,
    "driver": driver,
    "driver-controller": driver_controller,
}
Handler = Callable[[], object]

CURRENT: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """One start of a component. Whoever wants to hear of its end adds a function to `ended`."""

    def __init__(self, pid: int, name: str, log: Path) -> None:
        self.pid = pid
        self.name = name
        self.alive = True
        self.log = log
        self.seconds = 0.0  # of CPU, where the loop measures it
        self.handlers: dict[int, Handler] = {}
        self.tasks: WeakValueDictionary[int, asyncio.Task[Any]] = WeakValueDictionary()  # by their numbers
        self._kept: list[asyncio.Task[Any]] = []
        self.ended: dict[Callable[[], None], None] = {}
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str | None = None) -> "asyncio.Task[Any]":
        """Runs a coroutine as a task of the process."""
        return asyncio.get_running_loop().create_task(work, name=name, context=self.context)

    def send(self, number: int) -> None:
        """Delivers a signal; without a handler SIGTERM and SIGINT end the process, others do nothing."""
        if number == signal.SIGKILL:
            self.end()
        elif number in self.handlers:
            asyncio.get_running_loop().call_soon(self.handlers[number], context=self.context)
        elif number in (signal.SIGTERM, signal.SIGINT):
            self.end()

    def end(self) -> None:
        """Ends the process: none of its callbacks runs any more."""
        if not self.alive:
            return
        self.alive = False
        # Their objects are kept: one that is collected runs its `finally` blocks.
        self._kept = [*self.tasks.values()]
        ended, self.ended = self.ended, {}
        for tell in ended:
            tell()


class ProcessLogs(logging.Handler):
    """Writes what a process logs to its file."""

    def emit(self, record: logging.LogRecord) -> None:
        process = CURRENT.get()
        if process is not None and process.log.parent.is_dir():
            write_log(process, f"{record.levelname[0]} {record.name}: {self.format(record)}")


def write_log(process: Process, text: str) -> None:
    """Appends to the log of a process."""
    with process.log.open("a") as file:
        file.write(f"{text}\n")


class SimulatedProcesses:
    """`cluster.processes.Processes` in this event loop. `machine_of` gives each process its machine."""

    def __init__(self, machine_of: Callable[[Process], object]) -> None:
        self._machine_of = machine_of
        self._processes: dict[int, Process] = {}

    @property
    def started(self) -> Collection[Process]:
        """Returns all processes that were ever started."""
        return self._processes.values()

    def prepare(self, kinds: Collection[str], environment: Mapping[str, str]) -> None:
        """Does nothing: all modules are there."""

    async def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Identity:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kind = arguments[0]
        name = log.stem if log.stem.startswith(kind) else f"{kind}/{log.stem}"
        process = Process(len(self._processes) + 1, name, log)
        self._processes[process.pid] = process
        process.context.run(self._invoke, process, arguments)
        return process.pid, str(process.pid)

    def _invoke(self, process: Process, arguments: Sequence[str]) -> None:
        command = COMMANDS[arguments[0]]
        try:
            with command.make_context(arguments[0], [*arguments[1:]]) as context:
                context.meta[MACHINE] = self._machine_of(process)
                command.invoke(context)
        except click.ClickException as error:
            raise ClusterError(f"{process.name} cannot start: {error.format_message()}") from error

    def alive(self, pid: int, born: str) -> bool:
        return born != "" and pid in self._processes and self._processes[pid].alive

    def send(self, pid: int, born: str, number: signal.Signals) -> None:
        if self.alive(pid, born):
            self._processes[pid].send(number)

    async def stop(self, pid: int, born: str, *, kill: bool = False) -> bool:
        if not self.alive(pid, born):
            return True
        process = self._processes[pid]
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

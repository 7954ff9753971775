"""The processes of a program: their start, their end, and that they end with the shim in any case."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from kubeskew.apimachinery.process.machine import SystemMachine
from kubeskew.shim.program_file import Program, ProgramProcess

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # which kubeskew empties for its own components

log = logging.getLogger(__name__)


def status_text(code: int) -> str:
    """Words a process's end: `exit status 1`, `signal 9`."""
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def environment_of(process: ProgramProcess, given: Mapping[str, str]) -> dict[str, str]:
    """This process's own environment as its starter has it, with the program's variables."""
    own = {name: value for name, value in given.items() if (name, value) not in _EMPTIED}
    return {**own, **process.env}


_EMPTIED = frozenset((name, os.devnull) for name in _AUTHORITIES)


class Programs:
    """The processes write to the log of this one, and are in its session. Each has a process group of its
    own, which signals are sent to: a wrapper need not exec its program to end with it.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    @property
    def pids(self) -> dict[str, int]:
        """Pids by the names in the program file."""
        return {name: process.pid for name, process in self._processes.items()}

    @property
    def running(self) -> bool:
        """True while all processes run that there should be."""
        return len(self._processes) == len(self._program.processes) and all(
            process.returncode is None for process in self._processes.values()
        )

    async def start(self) -> None:
        """Raises OSError."""
        for each in self._program.processes:
            await self._start(each)

    async def start_again(self, name: str) -> None:
        """Raises OSError."""
        await self._start(next(each for each in self._program.processes if each.name == name))

    async def _start(self, wanted: ProgramProcess) -> None:
        command = [self._program.path, *wanted.args]
        if wanted.wrapper:
            command = [*wanted.wrapper, str(os.getpid()), *command]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            env=environment_of(wanted, os.environ),
            preexec_fn=None if wanted.wrapper else _binding(),
        )
        self._processes[wanted.name] = process
        log.info("started %s as process %d", self._program, process.pid)

    async def ended(self) -> tuple[str, str]:
        """Waits for the first process that ends: its name, and how it ended."""
        waits = {asyncio.create_task(process.wait()): name for name, process in self._processes.items()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        first = next(wait for wait in waits if wait in done)
        _send(self._processes[waits[first]].pid, signal.SIGKILL)
        return waits[first], status_text(first.result())

    async def stop(self) -> None:
        """SIGTERM, and waits until all have ended."""
        self._send(signal.SIGTERM)
        await self._gone()

    async def end(self) -> None:
        """SIGKILL, which leaves nothing to wait for but the kernel."""
        self.kill()
        await self._gone()

    async def _gone(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                await process.wait()
                _send(process.pid, signal.SIGKILL)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                _send(process.pid, number)


def _send(group: int, number: signal.Signals) -> None:
    """Sends a signal to all that there is of a process group, which outlives its first process."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _binding() -> Callable[[], None]:
    """A function that a child calls before it becomes the program: it gets a process group of its own, and on
    Linux the kernel ends it with this process. A wrapper does so itself: where gRPC runs, a child that is
    forked must run nothing of Python's.
    """
    if sys.platform != "linux":
        return os.setpgrp
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        os.setpgrp()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)

    return bind


class ProgramMachine(SystemMachine):
    """The machine of a shim: what ends this process at once ends the program first."""

    def __init__(self, programs: Programs) -> None:
        super().__init__()
        self._programs = programs

    def exit(self, code: int) -> None:
        self._programs.kill()
        super().exit(code)

    def kill(self, fault: str) -> None:
        self._programs.kill()
        super().kill(fault)

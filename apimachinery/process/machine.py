"""The machine that a component's process runs on: its time, its randomness, its network, its end.

A process of its own runs on the system's. A component that shares an event loop with others is given another
one, by the context of its command, and does not notice.
"""

import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from kubeskew.apimachinery.clock import Clock, Entropy, SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import LastWords
from kubeskew.apimachinery.process.runtime import allow_open_files, run_loop, set_up_logging, settle_memory

if TYPE_CHECKING:
    from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
    from kubeskew.apimachinery.client.transport import Transport
    from kubeskew.apimachinery.process.health_checks import Health

M = TypeVar("M")

MACHINE = "kubeskew.machine"  # in the `meta` of a command's context


class Machine(Protocol):
    """The interface of a process to the machine it runs on."""

    @property
    def name(self) -> str:
        """Returns the name of the host."""
        ...

    @property
    def clock(self) -> Clock: ...

    def entropy(self) -> Entropy:
        """Returns a new source of randomness."""
        ...

    def log(self, verbosity: int) -> None:
        """Has the process log from now on, at this verbosity."""
        ...

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs the process, and returns or raises as `main` does; or has it run from now on."""
        ...

    def settle(self) -> None:
        """Hears that what has been made by now stays as long as the process."""
        ...

    def exit(self, code: int) -> None:
        """Ends the process at once."""
        ...

    def kill(self, fault: str) -> None:
        """Ends the process as SIGKILL does; `fault` is the id of the fault that has it die."""
        ...

    def killed(self, fault: str, start: Callable[[], None]) -> None:
        """Hears that a fault has ended a part of the process, which `start` starts again. Whoever looks after
        the processes of this machine may call it."""
        ...

    def dial(self, config: "Kubeconfig", max_requests: int) -> "Transport":
        """Returns a transport to the server of a kubeconfig, with the certificate that it has; at most
        `max_requests` are under way at a time, watches not counted."""
        ...

    def serve_health(self, health: "Health", address: str, port: int) -> AbstractAsyncContextManager[int]:
        """Serves the health of a component while the context is open; gives the port."""
        ...

    def last_words(self, kubeconfig: Path, agent: str) -> LastWords:
        """Returns what posts announcements without giving way to anything else of the process."""
        ...


class SystemMachine:
    """The machine of this interpreter, which runs one process."""

    def __init__(self) -> None:
        self.name = os.uname().nodename
        self.clock: Clock = SystemClock()

    def entropy(self) -> Entropy:
        return SeededEntropy()

    def log(self, verbosity: int) -> None:
        set_up_logging(verbosity)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        allow_open_files()
        run_loop(main)

    def settle(self) -> None:
        settle_memory()

    def exit(self, code: int) -> None:
        os._exit(code)

    def kill(self, fault: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def killed(self, fault: str, start: Callable[[], None]) -> None:
        """Does nothing: nobody looks after processes here, and what was killed stays down."""

    def dial(self, config: "Kubeconfig", max_requests: int) -> "Transport":
        from kubeskew.apimachinery.client.rest import dial

        return dial(config, max_requests)

    def serve_health(self, health: "Health", address: str, port: int) -> AbstractAsyncContextManager[int]:
        from kubeskew.apimachinery.process.listeners import serve_health

        return serve_health(health, address, port)

    def last_words(self, kubeconfig: Path, agent: str) -> LastWords:
        from kubeskew.apimachinery.client.faults import posting_at_once

        return posting_at_once(kubeconfig, agent)


def machine_given(default: Callable[[], M]) -> M:
    """Returns the machine that the running command was given; without one it is made by `default`."""
    found: M | None = click.get_current_context().meta.get(MACHINE)
    return found if found is not None else default()

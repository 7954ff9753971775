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
    def name(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    def entropy(self) -> Entropy:
        """A new source of randomness for each call."""
        ...

    def log(self, verbosity: int) -> None: ...

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs the process until `main` ends, and raises its error; or has it run from now on."""
        ...

    def settle(self) -> None:
        """Notifies the machine that all that has been made by now stays as long as the process."""
        ...

    def exit(self, code: int) -> None: ...

    def kill(self, fault: str) -> None:
        """Ends the process as SIGKILL does, because of the fault of that id."""
        ...

    def killed(self, fault: str, start: Callable[[], None]) -> None:
        """Reports that a fault has ended a part of the process, which `start` starts again. A supervisor of
        the machine's processes may call it."""
        ...

    def dial(self, config: "Kubeconfig", max_requests: int) -> "Transport":
        """Connects to the server of a kubeconfig with its certificate; at most `max_requests` are under way
        at a time, watches not counted."""
        ...

    def serve_health(self, health: "Health", address: str, port: int) -> AbstractAsyncContextManager[int]:
        """Serves the health of a component while the context is open, and yields the port."""
        ...

    def last_words(self, kubeconfig: Path, agent: str, timeline_dir: Path | None) -> LastWords:
        """Posts announcements while nothing else of the process runs."""
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
        """Does nothing: there is no supervisor here, and a part that was killed stays down."""

    def dial(self, config: "Kubeconfig", max_requests: int) -> "Transport":
        from kubeskew.apimachinery.client.rest import dial

        return dial(config, max_requests)

    def serve_health(self, health: "Health", address: str, port: int) -> AbstractAsyncContextManager[int]:
        from kubeskew.apimachinery.process.listeners import serve_health

        return serve_health(health, address, port)

    def last_words(self, kubeconfig: Path, agent: str, timeline_dir: Path | None) -> LastWords:
        from kubeskew.apimachinery.client.announcements import posting_at_once

        return posting_at_once(kubeconfig, agent, timeline_dir)


def machine_given(default: Callable[[], M]) -> M:
    """Machine of the running command's context; without one it is made by `default`."""
    found: M | None = click.get_current_context().meta.get(MACHINE)
    return found if found is not None else default()

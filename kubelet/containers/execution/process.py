"""Holds the state of a running command: its variables, arguments, directory, inputs and outputs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from kubeskew.kubelet.containers.execution.files import FileSystem, join
from kubeskew.kubelet.containers.execution.tasks import Task, Tasks
from kubeskew.kubelet.containers.execution.waiting import MEMORY_SPENT, ExitError, Receive, wait_for
from kubeskew.kubelet.containers.network import ContainerNetwork


class Input(Protocol):
    """A standard input."""

    def unread(self, data: bytes) -> None:
        """Gives back bytes that were read too far."""
        ...

    async def read(self) -> bytes:
        """Returns the next bytes; empty at the end."""
        ...


class LiveInput:
    """An input that comes from outside."""

    def __init__(self) -> None:
        self._held = b""

    def unread(self, data: bytes) -> None:
        self._held = data + self._held

    async def read(self) -> bytes:
        if self._held:
            data, self._held = self._held, b""
            return data
        received: bytes = await wait_for(Receive())
        return received


class BytesInput:
    """An input that is known beforehand: a file, or a text."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def unread(self, data: bytes) -> None:
        self._data = data + self._data

    async def read(self) -> bytes:
        data, self._data = self._data, b""
        return data


Output = Callable[[bytes], None]
Runner = Callable[["Process", list[str]], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Machine:
    """The state that all commands of a container share."""

    hostname: str
    files: FileSystem
    now: Callable[[], datetime]
    tasks: Tasks
    network: ContainerNetwork
    is_main: bool = False  # the container's own program
    terminate: Callable[[str], None] | None = None  # a signal for the container's own program
    assumes_programs: bool = True  # assume that a program the fake does not have is in the image
    is_busybox: bool = False  # the tools are busybox', where they differ from GNU's
    uptime: Callable[[], float] = lambda: 0.0  # seconds since the container began
    listed: Callable[[], list[tuple[int, str]]] = list  # (pid, command) of all tasks in the container
    programs: Mapping[str, Runner] = field(default_factory=dict)  # those of the image alone, by name


_MOST_GATHERED = 64 << 20


def gather(collected: bytearray) -> Output:
    """Returns an output that collects text for another command; it raises ExitError beyond a limit."""

    def write(data: bytes) -> None:
        if len(collected) + len(data) > _MOST_GATHERED:
            raise ExitError(MEMORY_SPENT)
        collected.extend(data)

    return write


@dataclass(slots=True)
class Process:
    """One command's state: variables, arguments, directory, inputs and outputs."""

    machine: Machine
    environment: dict[str, str]
    stdin: Input
    stdout: Output
    stderr: Output
    directory: str = "/"
    variables: dict[str, str] = field(default_factory=dict)  # variables of the shell that are not exported
    arguments: list[str] = field(default_factory=list)  # $0, $1, …
    status: int = 0
    run: Runner | None = None  # runs another command
    run_text: Callable[["Process", str], Awaitable[int]] | None = None  # runs the script of a substitution
    is_terminal: bool = False
    traps: dict[str, str] = field(default_factory=dict)  # signal or EXIT → the script to run
    functions: dict[str, Any] = field(default_factory=dict)  # name → its parsing.Function
    locals: dict[str, str | None] = field(default_factory=dict)  # values of `local` variables from before
    depth: int = 0  # of calls
    conditions: int = 0  # depth of conditions, in which failures end nothing
    jobs: list[Task] = field(default_factory=list)  # tasks in the background
    shell: str = "sh"  # the name by which the shell was called: sh, bash, …
    unset_exports: set[str] = field(default_factory=set)  # names exported without a value so far

    def child(self, **changes: Any) -> "Process":
        """Returns a process like this one, whose variables, arguments and directory are its own."""
        copied = {
            "environment": dict(self.environment),
            "variables": dict(self.variables),
            "arguments": [*self.arguments],
            "unset_exports": set(self.unset_exports),
            "functions": dict(self.functions),
            "traps": {},
            "jobs": [],
            "locals": {},
        }
        return replace(self, **{**copied, **changes})

    def assign(self, name: str, value: str) -> None:
        """Sets a variable where it is: in the environment if it is exported, else in the shell."""
        if name in self.environment or name in self.unset_exports:
            self.unset_exports.discard(name)
            self.variables.pop(name, None)
            self.environment[name] = value
        else:
            self.variables[name] = value

    def path(self, path: str) -> str:
        return join(self.directory, path)

    def out(self, text: str) -> None:
        self.stdout(text.encode("utf-8", "surrogateescape"))

    def complain(self, text: str) -> int:
        """Writes an error; returns 1, the usual exit code."""
        self.stderr(f"{text}\n".encode("utf-8", "surrogateescape"))
        return 1

    async def read_all(self) -> bytes:
        parts = []
        while data := await self.stdin.read():
            parts.append(data)
        return b"".join(parts)

    def timestamp(self) -> float:
        return self.machine.now().timestamp()

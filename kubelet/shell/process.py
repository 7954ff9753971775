"""A running command: what it has, and how it waits.

A command is a coroutine that waits for two things only, `Sleep` and `Receive`. Whoever drives it decides what
that means: an `exec` waits for real, the program of a container is run ahead in its own time.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from kubelet.shell.files import FileSystem, join


class Sleep(NamedTuple):
    """Seconds; infinite for a program of which nothing is known but that it runs."""

    seconds: float


class Receive(NamedTuple):
    """The next bytes of the standard input from outside; empty at its end."""


Request = Sleep | Receive


class _Wait:
    def __init__(self, request: Request) -> None:
        self._request = request

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._request)


async def sleep(seconds: float) -> None:
    """Wait; zero lets others have a turn."""
    await _Wait(Sleep(seconds))


class Input(Protocol):
    """A standard input."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...


class LiveInput:
    """What comes from outside."""

    async def read(self) -> bytes:
        data: bytes = await _Wait(Receive())
        return data


class BytesInput:
    """What is known beforehand: a file, or the output of the command before in a pipe."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    async def read(self) -> bytes:
        data, self._data = self._data, b""
        return data


Output = Callable[[bytes], None]
Runner = Callable[["Process", list[str]], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Machine:
    """What all commands of a container share."""

    hostname: str
    files: FileSystem
    now: Callable[[], datetime]
    is_main: bool = False  # the container's own program: an unknown command runs until it is stopped
    terminate: Callable[[], None] | None = None  # SIGTERM for the container's own program


class ExitError(Exception):
    """The shell ends."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


MEMORY_SPENT = 137  # the exit code of one that a limit on memory ended: all containers have the kubelet's
_MOST_GATHERED = 64 << 20


def gather(collected: bytearray) -> Output:
    """An output that is kept for another command. Raises ExitError if it grows without bounds."""

    def write(data: bytes) -> None:
        if len(collected) + len(data) > _MOST_GATHERED:
            raise ExitError(MEMORY_SPENT)
        collected.extend(data)

    return write


@dataclass(slots=True)
class Process:
    """One command's world."""

    machine: Machine
    environment: dict[str, str]
    stdin: Input
    stdout: Output
    stderr: Output
    directory: str = "/"
    variables: dict[str, str] = field(default_factory=dict)  # of the shell, not exported
    arguments: list[str] = field(default_factory=list)  # $0, $1, …
    status: int = 0
    run: Runner | None = None  # how a command runs another one
    run_text: Callable[["Process", str], Awaitable[int]] | None = None  # how a substitution runs its script
    is_terminal: bool = False
    shell: str = "sh"  # the name by which the shell was called: sh, bash, …
    unset_exports: set[str] = field(default_factory=set)  # exported by name, without a value yet

    def child(self, **changes: Any) -> "Process":
        """A process like this one, whose variables, arguments and directory are its own."""
        copied = {
            "environment": dict(self.environment),
            "variables": dict(self.variables),
            "arguments": [*self.arguments],
            "unset_exports": set(self.unset_exports),
        }
        return replace(self, **{**copied, **changes})

    def assign(self, name: str, value: str) -> None:
        """Set a variable where it is: in the environment if it is exported, else in the shell."""
        if name in self.environment or name in self.unset_exports:
            self.unset_exports.discard(name)
            self.variables.pop(name, None)
            self.environment[name] = value
        else:
            self.variables[name] = value

    def path(self, path: str) -> str:
        return join(self.directory, path)

    def out(self, text: str) -> None:
        self.stdout(text.encode())

    def complain(self, text: str) -> int:
        """Say what is wrong; gives 1, the usual code."""
        self.stderr(f"{text}\n".encode())
        return 1

    async def read_all(self) -> bytes:
        parts = []
        while data := await self.stdin.read():
            parts.append(data)
        return b"".join(parts)

    def timestamp(self) -> float:
        return self.machine.now().timestamp()

"""A running command: what it has, and how it waits.

A command is a coroutine that waits for three things only, `Sleep`, `Receive` and `Until`. The tasks of one
program take turns (`tasks.py`); whoever drives the program decides what the first two mean: an `exec` waits
for real, the program of a container runs in its own time.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kubeskew.kubelet.containers.execution.files import FileSystem, join

if TYPE_CHECKING:
    from kubeskew.kubelet.containers.execution.tasks import Task, Tasks


class Sleep(NamedTuple):
    """Seconds; infinite for a program of which nothing is known but that it runs."""

    seconds: float


class Receive(NamedTuple):
    """The next bytes of the standard input from outside; empty at its end, None when the time is over."""

    seconds: float = float("inf")


class Until(NamedTuple):
    """Wait until something holds, but no longer than so many seconds; gives whether it does."""

    check: Callable[[], bool]
    seconds: float = float("inf")


Request = Sleep | Receive | Until


class _Wait:
    def __init__(self, request: Request) -> None:
        self._request = request

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._request)


async def wait_for(request: Request) -> Any:
    """Wait; gives what the driver answers."""
    return await _Wait(request)


async def sleep(seconds: float) -> None:
    """Wait; zero lets others have a turn."""
    await _Wait(Sleep(seconds))


class Input(Protocol):
    """A standard input."""

    def unread(self, data: bytes) -> None:
        """Give back bytes that were read too many."""
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
        received: bytes = await _Wait(Receive())
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
    """The machine that all commands of a container share."""

    hostname: str
    files: FileSystem
    now: Callable[[], datetime]
    tasks: "Tasks"
    is_main: bool = False  # the container's own program
    terminate: Callable[[str], None] | None = None  # a signal for the container's own program
    assumes_programs: bool = True  # a program that the fake does not have is taken to be in the image
    is_busybox: bool = False  # the image's tools are busybox', where they differ from GNU's
    uptime: Callable[[], float] = lambda: 0.0  # seconds since the container began
    listed: Callable[[], list[tuple[int, str]]] = list  # (pid, command) of all that runs in the container


class ExitError(Exception):
    """The shell ends."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


MEMORY_SPENT = 137  # the exit code of one that a limit on memory ended: all containers have the kubelet's
_MOST_GATHERED = 64 << 20


def gather(collected: bytearray) -> Output:
    """Returns an output that is kept for another command. Raises ExitError if it grows without bounds."""

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
    traps: dict[str, str] = field(default_factory=dict)  # signal or EXIT → the script to run
    functions: dict[str, Any] = field(default_factory=dict)  # name → its parsing.Function
    locals: dict[str, str | None] = field(default_factory=dict)  # what `local` variables were before
    depth: int = 0  # of calls
    conditions: int = 0  # in how many conditions we are, where failures end nothing
    jobs: "list[Task]" = field(default_factory=list)  # what was put into the background
    shell: str = "sh"  # the name by which the shell was called: sh, bash, …
    unset_exports: set[str] = field(default_factory=set)  # exported by name, without a value yet

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
        self.stdout(text.encode("utf-8", "surrogateescape"))

    def complain(self, text: str) -> int:
        """Say what is wrong; gives 1, the usual code."""
        self.stderr(f"{text}\n".encode("utf-8", "surrogateescape"))
        return 1

    async def read_all(self) -> bytes:
        parts = []
        while data := await self.stdin.read():
            parts.append(data)
        return b"".join(parts)

    def timestamp(self) -> float:
        return self.machine.now().timestamp()

"""`/exec`, `/attach` and `/run`: commands in a container, and the container's own program.

Source: k8s.io/kubelet/pkg/cri/streaming/remotecommand (exec.go, attach.go, server.go) and the texts of
containerd and runc, 1.36.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.container_process import ContainerProcess, run_program
from kubeskew.kubelet.containers.execution.driving import drive
from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import LiveInput
from kubeskew.kubelet.containers.shell.terminal import Interrupted, Terminal
from kubeskew.kubelet.server.channels import STDERR, STDOUT, Channels
from kubeskew.kubelet.server.view import NodeView, ServerError

SUCCESS: Object = {"metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The streams that a session has."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def of(cls, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> "StreamOptions":
        """Returns the options; raises ServerError if there are no streams. A terminal has one output."""
        if not (stdin or stdout or stderr):
            raise ServerError(400, "you must specify at least 1 of stdin, stdout, stderr")
        return cls(stdin, stdout, stderr and not tty, tty)


async def execute(
    view: NodeView,
    container_process: ContainerProcess,
    argv: list[str],
    options: StreamOptions,
    channels: Channels,
) -> None:
    """Runs a command, and reports its exit code."""
    container_process.advance()
    if not _is_there(container_process, argv):
        await channels.finish(_internal(_not_started(argv)))
        return
    written: list[tuple[int, bytes]] = []

    def writer(channel: int) -> "_Writer":
        return _Writer(written, channel if not options.tty else STDOUT, tty=options.tty)

    async def flush() -> None:
        view.runtime.keep_files(container_process)
        while written:
            channel, data = written.pop(0)
            await channels.write(channel, data)
        container_process.advance()

    terminal = _TerminalInput(channels) if options.tty and options.stdin else None

    async def receive() -> bytes:
        if not options.stdin:
            return b""
        return await (terminal.read() if terminal is not None else channels.read())

    files = view.runtime.recording(container_process)
    process = container_process.process(
        LiveInput(), writer(STDOUT), writer(STDERR), tty=options.tty, files=files
    )
    try:
        code = await drive(run_program(process, argv), container_process.clock, receive, flush)
    except Interrupted:
        code = 130
    await channels.finish(exit_status(argv, code))


def _is_there(container_process: ContainerProcess, argv: list[str]) -> bool:
    if not argv:
        return False
    if container_process.setting.has(argv[0]):
        return True
    with contextlib.suppress(FileError):
        found = container_process.files.look(argv[0]) if argv[0].startswith("/") else None
        return found is not None and bool(found.data)
    return False


def _not_started(argv: list[str]) -> str:
    name = argv[0] if argv else ""
    why = "no such file or directory" if "/" in name else "executable file not found in $PATH"
    if "/" in name:
        why = f"stat {name}: {why}"
    return (
        "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
        f'unable to start container process: exec: "{name}": {why}: unknown'
    )


def _internal(why: str) -> Object:
    message = f"error executing command in container: {why}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def exit_status(argv: list[str], code: int) -> Object:
    """Returns the Status of a command that has ended."""
    if code == 0:
        return SUCCESS
    words = " ".join(argv)
    return {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: "
        f"error executing command [{words}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class _Writer:
    """Collects what a command writes until it is sent."""

    def __init__(self, written: list[tuple[int, bytes]], channel: int, *, tty: bool) -> None:
        self._written = written
        self._channel = channel
        self._tty = tty

    def __call__(self, data: bytes) -> None:
        if self._tty:
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        if data:
            self._written.append((self._channel, data))


class _TerminalInput:
    """Gives completed lines to the program; echoes what is typed."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._terminal = Terminal()

    async def read(self) -> bytes:
        while not self._terminal.ended:
            data = await self._channels.read()
            if not data:
                return b""
            try:
                lines = self._terminal.type(data)
            finally:
                shown = self._terminal.shown()
                if shown:
                    await self._channels.write(STDOUT, shown)
            if lines:
                return lines
        return b""


async def attach(container_process: ContainerProcess, options: StreamOptions, channels: Channels) -> None:
    """Shows what the container's program writes from now on, and gives it what is sent, until it ends."""
    container_process.advance()
    written: list[tuple[int, bytes]] = []

    def listen(stream: str, data: bytes) -> None:
        channel = STDERR if stream == "stderr" else STDOUT
        if options.stdout if channel == STDOUT else options.stderr:
            written.append((channel, data))

    feeding = (
        asyncio.create_task(_feed(container_process, channels))
        if options.stdin and container_process.setting.stdin
        else None
    )
    if container_process.simulation is not None:
        container_process.simulation.listeners.append(listen)
    try:
        while True:
            running = container_process.running
            container_process.advance()
            while written:
                await channels.write(*written.pop(0))
            if not running:
                break
            await container_process.changed()
    finally:
        if container_process.simulation is not None:
            container_process.simulation.listeners.remove(listen)
        if feeding is not None:
            feeding.cancel()
    await channels.finish(SUCCESS)


async def _feed(container_process: ContainerProcess, channels: Channels) -> None:
    terminal = _TerminalInput(channels) if container_process.setting.tty else None
    while True:
        try:
            data = await (terminal.read() if terminal is not None else channels.read())
        except Interrupted:
            continue
        if data:
            container_process.feed(data)
            continue
        if container_process.container.stdin_once:
            container_process.feed(b"")
        return

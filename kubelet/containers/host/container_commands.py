"""Commands in running containers, and clients that are attached to them.

Source: containerd's internal/cri/server (container_execsync.go, container_exec.go, container_attach.go).
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubeskew.kubelet.containers.host.command_streams import copy, feed, follow_size
from kubeskew.kubelet.containers.host.descriptors import Descriptor
from kubeskew.kubelet.containers.host.shim_client import ShimClient, ShimError
from kubeskew.kubelet.containers.runtime_service import (
    CommandResult,
    CommandStreams,
    CommandTimeoutError,
    ContainerRuntimeError,
)
from kubeskew.kubelet.containers.sandbox import Container

_NOT_EXECUTED = (
    "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
    "unable to start container process: {}: unknown"
)
_UNKNOWN_CODE = 255  # as containerd has it for a process of which it does not know how it ended
_MOST_OUTPUT = 16 * 1024 * 1024  # of a command's output, as containerd has it
_DRAIN_SECONDS = 1.0


class ContainerCommands:
    """Has the shim start commands, passes their streams on, and waits for their ends."""

    def __init__(self, client: Callable[[], ShimClient], identifier: Callable[[], str]) -> None:
        """`client` raises ShimGoneError while there is no shim."""
        self._client = client
        self._identifier = identifier
        self._ends: dict[str, asyncio.Future[int]] = {}  # the exit codes of those that are waited for

    def end(self, name: str, code: int) -> None:
        """The shim reports the end of a command."""
        future = self._ends.get(name)
        if future is not None and not future.done():
            future.set_result(code)

    def end_all(self) -> None:
        """All commands have ended with the shim."""
        for name in [*self._ends]:
            self.end(name, _UNKNOWN_CODE)

    async def run(self, container: Container, command: Sequence[str], seconds: float) -> CommandResult:
        output = {"stdout": bytearray(), "stderr": bytearray()}
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        readers: dict[str, Descriptor] = {}
        writers = []
        for name in output:
            reading, writing = os.pipe()
            readers[name] = Descriptor(reading)
            writers.append(writing)
        try:
            answer = await self._exec(container, command, [null, *writers], tty=False)
        except BaseException:
            for reader in readers.values():
                reader.close()
            raise
        finally:
            for fd in (null, *writers):
                os.close(fd)

        async def gather(name: str) -> None:
            while data := await readers[name].read():
                room = _MOST_OUTPUT - len(output[name])
                output[name] += data[:room]

        reading_all = [asyncio.ensure_future(gather(name)) for name in output]
        try:
            async with asyncio.timeout(seconds if seconds > 0 else None):
                code = await self._command_end(answer["exec"])
        except TimeoutError:
            self._post("kill_process", pid=answer["pid"])
            text = f"command {' '.join(command)!r} timed out"
            raise CommandTimeoutError(
                f"failed to exec in container: timeout {seconds:g}s exceeded: context deadline exceeded"
            ) from TimeoutError(text)
        finally:
            await asyncio.wait(reading_all, timeout=_DRAIN_SECONDS)
            for task in reading_all:
                task.cancel()
            for reader in readers.values():
                reader.close()
        return CommandResult(code, bytes(output["stdout"]), bytes(output["stderr"]))

    async def stream(
        self,
        container: Container,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        stdin: bool,
        tty: bool,
    ) -> int:
        if tty:
            return await self._exec_on_terminal(container, command, streams, stdin=stdin)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        first, writer = null, None
        if stdin:
            first, writing = os.pipe()
            writer = Descriptor(writing)
        pipes = [os.pipe(), os.pipe()]
        readers = [Descriptor(reading) for reading, _ in pipes]
        try:
            answer = await self._exec(
                container, command, [first, *(writing for _, writing in pipes)], tty=False
            )
        except BaseException:
            for descriptor in (*readers, *([writer] if writer else [])):
                descriptor.close()
            raise
        finally:
            for fd in sorted({null, first, *(writing for _, writing in pipes)}):
                os.close(fd)
        outputs = [
            asyncio.ensure_future(copy(readers[0], streams.write_stdout)),
            asyncio.ensure_future(copy(readers[1], streams.write_stderr)),
        ]
        inputs = [asyncio.ensure_future(feed(streams, writer))] if writer is not None else []
        return await self._until_command_ends(
            answer, outputs, inputs, [*readers, *([writer] if writer else [])]
        )

    async def _exec_on_terminal(
        self, container: Container, command: Sequence[str], streams: CommandStreams, *, stdin: bool
    ) -> int:
        here, there = socket.socketpair()
        with here:
            try:
                answer = await self._exec(container, command, [there.fileno()], tty=True)
            finally:
                there.close()
            here.setblocking(False)
            try:
                _data, fds, _flags, _address = socket.recv_fds(here, 64, 1)
            except OSError as error:
                del self._ends[answer["exec"]]
                raise ContainerRuntimeError("the command has no terminal") from error
        terminal = Descriptor(fds[0])
        outputs = [asyncio.ensure_future(copy(terminal, streams.write_stdout))]
        inputs = [asyncio.ensure_future(follow_size(terminal, streams))]
        if stdin:
            inputs.append(asyncio.ensure_future(feed(streams, terminal, closes=False)))
        return await self._until_command_ends(answer, outputs, inputs, [terminal])

    async def _until_command_ends(
        self,
        answer: Mapping[str, Any],
        outputs: Sequence[asyncio.Task[None]],
        inputs: Sequence[asyncio.Task[None]],
        descriptors: Sequence[Descriptor],
    ) -> int:
        ended = False
        try:
            code = await self._command_end(answer["exec"])
            ended = True
            await asyncio.wait(outputs, timeout=_DRAIN_SECONDS)
            return code
        finally:
            if not ended:
                self._post("kill_process", pid=answer["pid"])
            for task in (*outputs, *inputs):
                task.cancel()
            await asyncio.gather(*outputs, *inputs, return_exceptions=True)
            for descriptor in descriptors:
                descriptor.close()

    async def _exec(
        self, container: Container, command: Sequence[str], files: Sequence[int], *, tty: bool
    ) -> dict[str, Any]:
        name = self._identifier()
        self._ends[name] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._client().call(
                "exec", files, exec=name, container=container.id, argv=[*command], tty=tty
            )
        except BaseException as error:
            del self._ends[name]
            if not isinstance(error, ShimError):
                raise
            if error.kind == "start":
                raise ContainerRuntimeError(_NOT_EXECUTED.format(error)) from error
            raise ContainerRuntimeError(f"failed to exec in container: {error}") from error
        return {**answer, "exec": name}

    async def _command_end(self, name: str) -> int:
        try:
            return await self._ends[name]
        finally:
            del self._ends[name]

    async def attach(self, container: Container, streams: CommandStreams, *, stdin: bool) -> None:
        pipes = [os.pipe(), os.pipe()]
        readers = [Descriptor(reading) for reading, _ in pipes]
        try:
            answer, passed = await self._client().call_for_files(
                "attach", [writing for _, writing in pipes], container=container.id, stdin=stdin
            )
        except ShimError as error:
            for reader in readers:
                reader.close()
            raise ContainerRuntimeError(f"failed to attach container: {error}") from error
        finally:
            for _, writing in pipes:
                os.close(writing)
        tasks = [
            asyncio.ensure_future(copy(readers[0], streams.write_stdout)),
            asyncio.ensure_future(copy(readers[1], streams.write_stderr)),
        ]
        extra = []
        writer = Descriptor(passed[0]) if answer["stdin"] else None
        if writer is not None:
            extra.append(asyncio.ensure_future(self._feed_container(container, streams, writer)))
            if container.tty:
                extra.append(asyncio.ensure_future(follow_size(writer, streams)))
        try:
            await asyncio.wait(tasks)
        finally:
            for task in (*tasks, *extra):
                task.cancel()
            await asyncio.gather(*tasks, *extra, return_exceptions=True)
            for descriptor in (*readers, *([writer] if writer else [])):
                descriptor.close()
            if writer is not None and container.stdin_once:
                self._post("detach", container=container.id)

    async def _feed_container(
        self, container: Container, streams: CommandStreams, writer: Descriptor
    ) -> None:
        await feed(streams, writer, closes=not container.tty)
        if container.stdin_once:
            self._post("detach", container=container.id)

    def _post(self, method: str, **body: Any) -> None:
        with contextlib.suppress(ShimError):
            self._client().post(method, **body)

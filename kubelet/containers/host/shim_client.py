"""Speaks to a node's shim, and starts it where it does not run."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kubeskew
from kubeskew.apimachinery.process.descriptor_messages import MessageConnection
from kubeskew.kubelet.containers.host.shim_record import SOCKET
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError

MODULE = "kubeskew.kubelet.containers.host.shim_start"
_CONNECT_SECONDS = 10
_GONE = "the containers' parent process has ended"


class ShimError(ContainerRuntimeError):
    """The shim refused: `kind` is start for a program that cannot be executed, or create."""

    def __init__(self, message: str, kind: str = "create") -> None:
        super().__init__(message)
        self.kind = kind


class ShimGoneError(ShimError):
    """The shim has ended, and all containers of the node with it."""


class ShimClient:
    """One connection to a shim. `on_event` is called with what it reports, `on_end` when it has gone."""

    def __init__(
        self,
        connection: socket.socket,
        on_event: Callable[[dict[str, Any]], None],
        on_end: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = MessageConnection(connection, self._receive, self._end)
        self._on_event, self._on_end = on_event, on_end
        self._number = 0
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}

    async def call(self, method: str, files: Sequence[int] = (), **body: Any) -> dict[str, Any]:
        """Copies of the files are sent. Raises ShimError."""
        answer, passed = await self.call_for_files(method, files, **body)
        for fd in passed:
            os.close(fd)
        return answer

    async def call_for_files(
        self, method: str, files: Sequence[int] = (), **body: Any
    ) -> tuple[dict[str, Any], list[int]]:
        """The answer with the files that came along; the caller closes them. Raises ShimError."""
        self._number += 1
        number = self._number
        answer: asyncio.Future[tuple[dict[str, Any], list[int]]] = self._loop.create_future()
        self._waiting[number] = answer
        try:
            self.post(method, files, id=number, **body)
            content, passed = await answer
        finally:
            self._waiting.pop(number, None)
        if "error" in content:
            raise ShimError(content["error"], content["kind"])
        return content["ok"], passed

    def post(self, method: str, files: Sequence[int] = (), **body: Any) -> None:
        """Sends without waiting for an answer. Raises ShimGoneError."""
        try:
            self._connection.send({"method": method, **body}, [os.dup(fd) for fd in files])
        except ConnectionError as error:
            raise ShimGoneError(_GONE) from error

    def close(self) -> None:
        self._connection.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ShimGoneError(_GONE))

    def _receive(self, content: dict[str, Any], passed: list[int]) -> None:
        answer = self._waiting.get(content.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result((content, passed))
            return
        for fd in passed:
            os.close(fd)
        if "event" in content:
            self._on_event(content)

    def _end(self) -> None:
        self.close()
        self._on_end()


def connect(directory: Path) -> socket.socket | None:
    """None if no shim answers in a directory."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        holder = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{holder}/{SOCKET}")
        finally:
            os.close(holder)
    except OSError:
        connection.close()
        return None
    return connection


async def start(directory: Path, **options: Any) -> None:
    """Starts a shim, which writes its record. Raises ContainerRuntimeError."""
    answer = await asyncio.to_thread(_start, {"directory": str(directory), **options})
    if "error" in answer:
        raise ContainerRuntimeError(answer["error"])


def _start(options: dict[str, Any]) -> dict[str, Any]:
    top = Path(kubeskew.__file__).parent.parent
    code = f"import sys; sys.path.append({str(top)!r}); from {MODULE} import main; main()"
    try:
        finished = subprocess.run(  # noqa: S603 - this program's own module
            [sys.executable, "-I", "-S", "-c", code, json.dumps(options)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CONNECT_SECONDS,
            check=False,
            close_fds=True,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"the process that starts containers was not there after {_CONNECT_SECONDS} s"}
    try:
        answer: dict[str, Any] = json.loads(finished.stdout)
    except ValueError:
        return {
            "error": finished.stderr.decode(errors="replace").strip().rpartition("\n")[2] or "no shim starts"
        }
    return answer

"""Writes the output of containers to the files in which kubelets look for it, where the runtime does not.

Lines are in CRI's format: `2026-11-30T07:00:00.000000000Z stdout F TEXT`; the tag P is a part of a line.

Source: k8s.io/cri-client/pkg/logs/logs.go, 1.36.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from kubeskew.kubelet.containers.runtime_service import LogLine, RuntimeService
from kubeskew.kubelet.containers.sandbox import Container, Sandbox


def log_line(line: LogLine) -> bytes:
    """A line as the file has it."""
    tag = b"F" if line.data.endswith(b"\n") else b"P"
    head = line.time.strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()
    return b" ".join((head, line.stream.encode(), tag, line.data.removesuffix(b"\n"))) + b"\n"


class LogFiles:
    """Follows containers whose runtime keeps their output in memory."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the runtime's id of the container
        self._files: dict[str, tuple[Path, BinaryIO]] = {}

    def follow(self, sandbox: Sandbox, container: Container, path: Path) -> None:
        """Writes a running container's output to a file, unless the runtime has made that file."""
        if container.id in self._tasks or self._runtime.runs_programs:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.exists()
        self._files[container.id] = path, path.open("ab")
        following = self._runtime.follow_logs(sandbox, container)
        lines = [] if begun else [*self._runtime.logs(sandbox, container)]
        work = self._write(container, lines, following)
        self._tasks[container.id] = asyncio.create_task(work, name=f"log of {container.name}")

    def reopen(self, identifier: str) -> None:
        """Goes on in a new file: the kubelet has renamed the one so far."""
        if identifier in self._files:
            path, file = self._files[identifier]
            file.close()
            self._files[identifier] = path, path.open("ab")

    async def close(self) -> None:
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(
        self, container: Container, lines: list[LogLine], following: AsyncIterator[LogLine]
    ) -> None:
        try:
            for line in lines:
                self._put(container.id, line)
            async for line in following:
                self._put(container.id, line)
        finally:
            self._files.pop(container.id)[1].close()
            self._tasks.pop(container.id, None)

    def _put(self, identifier: str, line: LogLine) -> None:
        file = self._files[identifier][1]
        file.write(log_line(line))
        file.flush()

"""A runtime whose commands and ports a test scripts."""

import asyncio
from collections.abc import Callable, Sequence

from kubeskew.kubelet.containers.runtime_service import CommandResult
from kubeskew.kubelet.containers.simulated.runtime import SimulatedRuntime


class ScriptedConnection:
    """Answers each write by what `answer` makes of all that was written; None ends the connection."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._answer = answer
        self._written = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    async def read(self) -> bytes:
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        self._written += data
        self._answers.put_nowait(self._answer(self._written) or b"")

    async def close(self) -> None:
        self.closed = True


class ScriptedRuntime(SimulatedRuntime):
    """Commands end with the codes in `codes`, and ports answer as `ports` say."""

    runs_programs = True

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.codes: dict[str, int] = {}
        self.asked: list[list[str]] = []
        self.ports: dict[int, Callable[[bytes], bytes | None]] = {}
        self.refusal: Exception | None = None
        self.exec_error: Exception | None = None
        self.sandbox_attempts: list[int] = []

    async def run_pod_sandbox(self, config):
        self.sandbox_attempts.append(config.attempt)
        return await super().run_pod_sandbox(config)

    async def start_container(self, sandbox, config):
        if self.refusal is not None:
            raise self.refusal
        return await super().start_container(sandbox, config)

    async def exec_sync(self, sandbox, container, command: Sequence[str], seconds: float) -> CommandResult:
        self.asked.append([*command])
        if self.exec_error is not None:
            raise self.exec_error
        if command[0] not in self.codes:
            return await super().exec_sync(sandbox, container, command, seconds)
        code = self.codes[command[0]]
        return CommandResult(code, b"", b"" if code == 0 else b"no\n")

    async def dial(self, sandbox, port: int) -> ScriptedConnection:
        if port not in self.ports:
            raise ConnectionRefusedError("connection refused")
        return ScriptedConnection(self.ports[port])

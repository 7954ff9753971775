"""API servers of several workers, as processes."""

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from until import until

TOKENS = 'secret,admin,admin,"system:masters"\nalice,alice,alice,"dev"\n'


def children(pid: int) -> list[int]:
    """The writer of the log comes first, then the workers in the order of their starts."""
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class WorkerSet:
    """A running server. Each session has one connection, of which the next one goes to another worker."""

    def __init__(
        self, process: asyncio.subprocess.Process, directory: Path, port: int, log: list[str]
    ) -> None:
        self.process = process
        self.log = log
        self.storage = f"sqlite:///{directory}/log.db"
        self.url = f"https://127.0.0.1:{port}"
        self.context = ssl.create_default_context(cafile=directory / "apiserver.crt")

    @property
    def children(self) -> list[int]:
        return children(self.process.pid)

    def session(self, token: str = "secret", most: int = 1) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(ssl=self.context, limit=most),
        )
        session._retry_connection = False  # else what may have been done is sent again
        return session

    @asynccontextmanager
    async def sessions(self, count: int) -> AsyncIterator[Sequence[aiohttp.ClientSession]]:
        """Sessions whose connections are there, one to each worker if there are as many."""
        found = [self.session() for _ in range(count)]
        try:
            for session in found:
                await call(session, "get", "/api")
            yield found
        finally:
            for session in found:
                await session.close()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return await self.process.wait()


async def call(session: aiohttp.ClientSession, method: str, path: str, **more: Any) -> tuple[int, Any]:
    async with session.request(method, path, **more) as answer:
        return answer.status, await answer.json()


@asynccontextmanager
async def worker_set(directory: Path, workers: int, *arguments: str) -> AsyncIterator[WorkerSet]:
    """A server with so many workers, all ready."""
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubeskew.apiserver.cli", "--storage-url", f"sqlite:///{directory}/log.db",
        "--secure-port", "0", "--token-auth-file", str(tokens), "--cert-dir", str(directory),
        "--workers", str(workers), *arguments, stderr=asyncio.subprocess.PIPE, limit=2**20, process_group=0,
        env={**os.environ, "SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull},
    )  # fmt: skip
    log: list[str] = []
    reading = asyncio.create_task(_read(process, log))
    try:
        await until(lambda: len(serving_lines(log)) == workers or process.returncode is not None, 60)
        assert process.returncode is None, "".join(log)
        yield WorkerSet(process, directory, int(serving_lines(log)[0].rpartition(":")[2]), log)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        await reading


def serving_lines(log: Sequence[str]) -> list[str]:
    return [line for line in log if " serving on " in line]


async def _read(process: asyncio.subprocess.Process, log: list[str]) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        log.append(line.decode())

"""`kubeskew etcd` as processes that are killed and started again."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from etcd_calls import GRPCClient


class EtcdProcess:
    """One after the other over the same storage, each at a port of its own."""

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self._process: asyncio.subprocess.Process | None = None
        self._clients: list[GRPCClient] = []
        self._serving = asyncio.Event()

    async def start(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubeskew", "etcd", "--listen-client-urls", "http://127.0.0.1:0",
            *self._flags, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        assert line.startswith("serving etcd's API at http://127.0.0.1:"), line
        self._clients.append(GRPCClient(line.split("//")[1].strip()))
        self._serving.set()

    async def client(self) -> GRPCClient:
        """A client of the process that runs, or of the next."""
        await self._serving.wait()
        return self._clients[-1]

    async def stop(self, number: int) -> int:
        """Sends the signal, and gives the exit status."""
        assert self._process is not None
        self._serving.clear()
        self._process.send_signal(number)
        return await asyncio.wait_for(self._process.wait(), 20)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        if self._process is not None and self._process.returncode is None:
            await self.stop(signal.SIGKILL)


@asynccontextmanager
async def running_etcd(*flags: str) -> AsyncIterator[EtcdProcess]:
    """Killed at the end, if it has not ended by itself."""
    etcd = EtcdProcess(*flags)
    try:
        await etcd.start()
        yield etcd
    finally:
        await etcd.close()

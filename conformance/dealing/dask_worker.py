"""Runs in a Dask worker: identifies its kubeskew, and does jobs in a process next to it.

Cells run in a process of `dask_jobs.py`, one for each worker and run; it ends with the worker.
"""

import asyncio
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any

from distributed import Worker, WorkerPlugin, get_worker

from kubeskew.conformance.dealing.dask_jobs import ENDED
from kubeskew.conformance.dealing.workers import DiedError
from kubeskew.conformance.resumption import digest_of_package

_MODULE = "kubeskew.conformance.dealing.dask_jobs"
_SHOWN = 12  # digits of a digest
_STOP_SECONDS = 10.0


def build() -> str:
    """Identifies kubeskew and Python: workers and their client must have the same."""
    digest = digest_of_package().hex()[:_SHOWN]
    return (
        f"kubeskew {version('kubeskew')} build {digest} on Python {sys.version_info[0]}.{sys.version_info[1]}"
    )


def digests(paths: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 by path; empty for a file that is not there."""
    return {
        path: sha256(Path(path).read_bytes()).hexdigest() if Path(path).is_file() else "" for path in paths
    }


async def begin(name: str, wanted: str, files: Mapping[str, str], order: bytes, dask_worker: Worker) -> str:
    """Prepares a worker for the jobs of a run; the text is why it cannot do any, or empty."""
    if (mine := build()) != wanted:
        return f"it has {mine}, this is {wanted}: install the same one there"
    for path, digest in digests(files).items():
        if digest != files[path]:
            state = "is another file" if digest else "is not"
            return (
                f"{path} {state} there: a scenario needs the files that it names at the same path on every"
                " machine"
            )
    process = JobProcess(
        order, dask_worker.state.nthreads, lambda line: dask_worker.log_event(name, line.decode())
    )
    await dask_worker.plugin_add(plugin=JobProcessPlugin(process), name=name)
    return ""


async def perform(name: str, number: int, job: bytes) -> Any:
    plugin = get_worker().plugins.get(name)
    if not isinstance(plugin, JobProcessPlugin):
        return DiedError("its worker was started again")
    return await plugin.process.perform(number, job)


async def end(name: str, dask_worker: Worker) -> None:
    if name in dask_worker.plugins:
        await dask_worker.plugin_remove(name=name)


class JobProcessPlugin(WorkerPlugin):
    """Keeps a process for jobs for as long as the run, or the worker, lasts."""

    def __init__(self, process: "JobProcess") -> None:
        self.process = process

    async def teardown(self, worker: Worker) -> None:
        await self.process.close()


class JobProcess:
    """A process next to a worker that does up to `count` jobs at a time.

    It is started at the first job, and again at the next job after it has ended.
    """

    def __init__(self, order: bytes, count: int, report: Callable[[bytes], None]) -> None:
        self._order, self._count, self._report = order, count, report
        self._process: asyncio.subprocess.Process | None = None
        self._connection: Connection | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._sending = asyncio.Lock()

    async def perform(self, number: int, job: bytes) -> Any:
        """The result stays pickled: only the client reads it."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        async with self._sending:
            if self._connection is None:
                await self._start()
                await self._send(pickle.dumps(self._count), self._order)
            self._waiting[number] = answer
            await self._send(pickle.dumps(number), job)
        return await answer

    async def _start(self) -> None:
        ours, theirs = socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _MODULE, str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the worker, with which it ends
            )
        self._connection = Connection(ours.detach())
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._receive)

    async def _send(self, *messages: bytes) -> None:
        """Sends messages while others are read; the reader notices a process that has ended."""
        for message in messages:
            if self._connection is not None:
                with suppress(OSError):
                    await asyncio.to_thread(self._connection.send_bytes, message)

    def _receive(self) -> None:
        if self._connection is None:
            return
        try:
            kind, number, content = self._connection.recv()
        except (EOFError, OSError):
            self._lose()
            return
        if kind == ENDED:
            answer = self._waiting.pop(number)
            if not answer.done():
                answer.set_result(content)
        else:
            self._report(content)

    def _lose(self) -> None:
        """Jobs of a process that has ended are lost; the next job starts another one."""
        self._disconnect()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(DiedError("its worker's process for jobs ended by itself"))
        self._waiting.clear()

    def _disconnect(self) -> None:
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """Ends the process and waits for it; its jobs are lost."""
        self._lose()
        if self._process is not None:
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()

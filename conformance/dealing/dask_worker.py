"""Runs in a Dask worker: says which kubeskew it has, and does jobs in a process beside it.

Cells run in a process that `dask_jobs.py` is, one for each worker and run; it ends with the worker, whatever
ends that.
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
    """Returns which kubeskew this is, and which Python: workers and their client must have the same."""
    digest = digest_of_package().hex()[:_SHOWN]
    return (
        f"kubeskew {version('kubeskew')} build {digest} on Python {sys.version_info[0]}.{sys.version_info[1]}"
    )


def digests(paths: Mapping[str, str]) -> dict[str, str]:
    """Returns the SHA-256 of files; of those that are not there it is empty."""
    return {
        path: sha256(Path(path).read_bytes()).hexdigest() if Path(path).is_file() else "" for path in paths
    }


async def begin(name: str, wanted: str, files: Mapping[str, str], order: bytes, dask_worker: Worker) -> str:
    """Prepares a worker for the jobs of a run; returns what keeps it from doing any, or nothing."""
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
    """Does a job at a worker that was prepared, and returns what came of it."""
    plugin = get_worker().plugins.get(name)
    if not isinstance(plugin, JobProcessPlugin):
        return DiedError("its worker was started anew")
    return await plugin.process.perform(number, job)


async def end(name: str, dask_worker: Worker) -> None:
    """Ends what was prepared for a run."""
    if name in dask_worker.plugins:
        await dask_worker.plugin_remove(name=name)


class JobProcessPlugin(WorkerPlugin):
    """Has a process for jobs for as long as the run, or the worker, lasts."""

    def __init__(self, process: "JobProcess") -> None:
        self.process = process

    async def teardown(self, worker: Worker) -> None:
        await self.process.close()


class JobProcess:
    """A process that does jobs beside a worker, so many at a time; `tell` hears what they do.

    It is started at the first job, and at the next one when it has ended.
    """

    def __init__(self, order: bytes, count: int, tell: Callable[[bytes], None]) -> None:
        self._order, self._count, self._tell = order, count, tell
        self._process: asyncio.subprocess.Process | None = None
        self._connection: Connection | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._sending = asyncio.Lock()

    async def perform(self, number: int, job: bytes) -> Any:
        """Returns what came of a job, which is pickled for the process: here nobody looks into it."""
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
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._hear)

    async def _send(self, *messages: bytes) -> None:
        """Sends messages while others are read; a process that has ended is noticed by who reads."""
        for message in messages:
            if self._connection is not None:
                with suppress(OSError):
                    await asyncio.to_thread(self._connection.send_bytes, message)

    def _hear(self) -> None:
        """Takes a message of the process."""
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
            self._tell(content)

    def _lose(self) -> None:
        """Notes that the process has ended: jobs that it had are lost, the next one starts another."""
        self._disconnect()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(DiedError("the process beside its worker ended by itself"))
        self._waiting.clear()

    def _disconnect(self) -> None:
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """Ends the process and waits for it; jobs that it has are lost."""
        self._lose()
        if self._process is not None:
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()

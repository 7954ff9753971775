"""Plugins' sockets in memory: calls as messages between tasks, with a file for each socket.

The file is a socket's without a socket behind it: components that look at directories find what they expect,
and a server that was killed leaves its file behind. A stream ends with its client, as with the connection; a
unary call of a client that dies is completed, as a driver does it that does not look at its context
meanwhile.
"""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpc import StatusCode

from kubeskew.kubelet.protocols.grpc_calls import RpcError, closing
from kubeskew.kubelet.protocols.message_sockets import Answer, Answers
from kubeskew.simulation.processes import CURRENT, Process

_PATH_BYTES_MAX = 107  # of a Unix socket's


class MemorySockets:
    """The sockets of one simulation, by the identity of their files."""

    def __init__(self) -> None:
        self.listening: dict[tuple[int, int], MemoryService] = {}
        self._changed = asyncio.Event()

    def channel_to(self, socket: Path | str) -> "MemoryChannel":
        return MemoryChannel(self, str(socket))

    def new_server(self) -> "MemoryService":
        return MemoryService(self)

    def at(self, path: str) -> "MemoryService | None":
        try:
            found = Path(path).stat()
        except OSError:
            return None
        server = self.listening.get((found.st_dev, found.st_ino))
        return server if server is not None and server.serving else None

    def notify(self) -> None:
        """Wakes tasks that wait for a server to come or go."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        await self._changed.wait()


class MemoryService:
    """`message_sockets.Server` of one process."""

    def __init__(self, sockets: MemorySockets) -> None:
        self._sockets = sockets
        self._process = CURRENT.get()
        self._files: list[tuple[int, int]] = []
        self.unary: dict[str, Answer] = {}
        self.streams: dict[str, Answers] = {}
        self.serving = False
        self.calls: dict[asyncio.Future[Any], None] = {}  # under way
        if self._process is not None:
            self._process.ended[self._gone] = None

    def add(self, service: str, name: str, answer: Answer) -> None:
        self.unary[f"/{service}/{name}"] = answer

    def add_stream(self, service: str, name: str, answers: Answers) -> None:
        self.streams[f"/{service}/{name}"] = answers

    def listen(self, socket: Path | str) -> None:
        if len(str(socket).encode()) > _PATH_BYTES_MAX:
            raise OSError(errno.EINVAL, f"listen unix {socket}: invalid argument")
        os.mknod(socket, stat.S_IFSOCK | 0o600)
        found = Path(socket).stat()
        self._files.append((found.st_dev, found.st_ino))
        self._sockets.listening[self._files[-1]] = self

    async def start(self) -> None:
        self.serving = True
        self._sockets.notify()

    async def stop(self, grace: float | None) -> None:
        self.serving = False
        if grace and self.calls:
            await asyncio.wait([*self.calls], timeout=grace)
        self._gone()

    def _gone(self) -> None:
        self.serving = False
        for file in self._files:
            self._sockets.listening.pop(file, None)
        for call in [*self.calls]:
            if not call.done():
                call.set_exception(RpcError(StatusCode.UNAVAILABLE, "error reading from server: EOF"))
        self._sockets.notify()

    @contextmanager
    def calling(
        self, end: "asyncio.Future[Any]", work: Coroutine[Any, Any, None], client: Process | None = None
    ) -> Iterator[None]:
        """The call runs in the server's process. It is cancelled when the caller leaves; of a `client`, also
        when its process ends."""
        spawn = asyncio.get_running_loop().create_task if self._process is None else self._process.spawn
        task = spawn(work)

        def leave() -> None:
            self.calls.pop(end, None)
            task.cancel()

        self.calls[end] = None
        if client is not None:
            client.ended[leave] = None
        try:
            yield
        finally:
            if client is not None:
                client.ended.pop(leave, None)
            leave()


class MemoryChannel:
    """`message_sockets.Channel` to a path."""

    def __init__(self, sockets: MemorySockets, path: str) -> None:
        self._sockets = sockets
        self._path = path
        self._closed = False
        self._server: MemoryService | None = None  # to which it is connected

    def _connected(self) -> MemoryService | None:
        """A connection outlives the file of its socket."""
        if self._server is None or not self._server.serving:
            self._server = self._sockets.at(self._path)
        return self._server

    def _dialled(self) -> MemoryService:
        if self._closed:
            raise closing()
        server = self._connected()
        if server is None:
            reason = "connection refused" if Path(self._path).exists() else "no such file or directory"
            dial = f"Error while dialing: dial unix {self._path}: connect: {reason}"
            raise RpcError(StatusCode.UNAVAILABLE, f'connection error: desc = "transport: {dial}"')
        return server

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        server = self._dialled()
        answer = server.unary.get(path)
        if answer is None:
            raise _unknown(path)
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        with server.calling(found, _answer(answer, request, found)):
            try:
                async with asyncio.timeout(timeout):
                    return await found
            except TimeoutError:
                raise RpcError(StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded") from None

    async def stream(self, path: str, request: bytes) -> AsyncGenerator[bytes, None]:
        server = self._dialled()
        answers = server.streams.get(path)
        if answers is None:
            raise _unknown(path)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        end.add_done_callback(lambda _: queue.put_nowait(None))
        with server.calling(end, _answer_all(answers, request, queue, end), CURRENT.get()):
            while (piece := await queue.get()) is not None:
                yield piece
            end.result()

    async def channel_ready(self) -> None:
        while self._connected() is None:
            await self._sockets.change()

    async def connection_changes(self) -> AsyncIterator[bool]:
        before: bool | None = None
        while not self._closed:
            now = self._connected() is not None
            if now is not before:
                before = now
                yield now
            else:
                await self._sockets.change()

    async def close(self) -> None:
        self._closed = True
        self._sockets.notify()


async def _answer(answer: Answer, request: bytes, found: "asyncio.Future[bytes]") -> None:
    try:
        response = await answer(request)
    except RpcError as error:
        _fail(found, error)
    except Exception as error:
        _fail(found, RpcError(StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}"))
    else:
        if not found.done():
            found.set_result(response)


async def _answer_all(
    answers: Answers, request: bytes, queue: "asyncio.Queue[bytes | None]", end: "asyncio.Future[None]"
) -> None:
    try:
        async for response in answers(request):
            queue.put_nowait(response)
    except RpcError as error:
        _fail(end, error)
    except Exception as error:
        _fail(end, RpcError(StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}"))
    else:
        if not end.done():
            end.set_result(None)


def _fail(future: "asyncio.Future[Any]", error: RpcError) -> None:
    if not future.done():
        future.set_exception(error)


def _unknown(path: str) -> RpcError:
    _, service, name = path.split("/")
    return RpcError(StatusCode.UNIMPLEMENTED, f"unknown method {name} for service {service}")

"""Reads and writes pipes, terminals and sockets from an event loop, which they never block."""

import asyncio
import errno
import os
import socket

_READ_BYTES = 65_536


class Descriptor:
    """A file that is read and written as it can be; one reader and one writer at a time. It is closed by
    `close`."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        os.set_inheritable(fd, False)
        self.fd = fd
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        while self.fd >= 0:
            try:
                return os.read(self.fd, _READ_BYTES)
            except (BlockingIOError, InterruptedError):
                await self._ready(self._loop.add_reader, self._loop.remove_reader)
            except OSError:  # EIO: no process has the terminal open
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError when the other side has gone."""
        left = memoryview(data)
        while left:
            if self.fd < 0:
                raise BrokenPipeError(errno.EPIPE, "the file is closed")
            try:
                left = left[os.write(self.fd, left) :]
            except (BlockingIOError, InterruptedError):
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
            except OSError as error:
                raise BrokenPipeError(errno.EPIPE, str(error)) from error

    async def _ready(self, add: object, remove: object) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(self.fd, _set, ready)  # type: ignore[operator]
        try:
            await ready
        finally:
            if self.fd >= 0:
                remove(self.fd)  # type: ignore[operator]

    def close(self) -> None:
        if self.fd >= 0:
            self._loop.remove_reader(self.fd)
            self._loop.remove_writer(self.fd)
            os.close(self.fd)
            self.fd = -1


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class SocketConnection:
    """A connection to a port of a pod."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        try:
            return await self._loop.sock_recv(self._socket, _READ_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError when the other side is gone."""
        try:
            await self._loop.sock_sendall(self._socket, data)
        except ConnectionError:
            raise
        except OSError as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from error

    async def close(self) -> None:
        self._socket.close()

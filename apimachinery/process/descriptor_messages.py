"""Messages over a Unix socket, with files: a length, JSON, and descriptors that go along (SCM_RIGHTS).

The number of files stands in the head of a message; they arrive before its end. Either side may wait for the
other (`send_message`, `receive_message`) or leave that to an event loop (`MessageConnection`).
"""

import array
import asyncio
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_HEAD = struct.Struct("!II")  # bytes of the body, number of files
_READ_BYTES = 262_144
_MOST_FILES = 64
_MOST_BYTES = 16 * 1024 * 1024

Message = tuple[dict[str, Any], list[int]]


class MessageError(ValueError):
    """The other side does not keep to the protocol."""


def send_message(connection: socket.socket, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """The files stay the caller's. Raises OSError."""
    data = _packed(message, len(files))
    sent = socket.send_fds(connection, [data], [*files]) if files else 0
    connection.sendall(data[sent:])


def receive_message(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message, whose files are the caller's; None at the end. Raises OSError and MessageError."""
    reader = MessageReader(connection)
    try:
        while True:
            messages = reader.read(1)
            if messages is None:
                if reader.is_within_message:
                    raise MessageError("a message breaks off")
                return None, []
            if messages:
                return messages[0]
    finally:
        reader.close()


class MessageReader:
    """Puts messages together of what a socket has."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self._files: deque[int] = deque()

    @property
    def is_within_message(self) -> bool:
        return bool(self._buffer)

    def read(self, most: int = 0) -> list[Message] | None:
        """The messages that are complete, with their files; None at the end. With `most` 1 it reads no
        further than to the end of a message. Raises OSError and MessageError.
        """
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(
                self._missing() if most else _READ_BYTES,
                socket.CMSG_SPACE(_MOST_FILES * 4),
                socket.MSG_CMSG_CLOEXEC,
            )
        except (BlockingIOError, InterruptedError):
            return []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._files.extend(fds)
        if not data:
            return None
        self._buffer += data
        return self._complete()

    def close(self) -> None:
        while self._files:
            os.close(self._files.popleft())

    def _missing(self) -> int:
        """The bytes that the head, or then the message, still lacks."""
        end = _HEAD.size if len(self._buffer) < _HEAD.size else self._end()
        return end - len(self._buffer)

    def _end(self) -> int:
        length, count = _HEAD.unpack_from(self._buffer)
        if length > _MOST_BYTES or count > _MOST_FILES:
            raise MessageError(f"a message of {length} bytes and {count} files")
        return _HEAD.size + int(length)

    def _complete(self) -> list[Message]:
        messages = []
        while len(self._buffer) >= _HEAD.size:
            end = self._end()
            if len(self._buffer) < end:
                break
            _length, count = _HEAD.unpack_from(self._buffer)
            body = json.loads(bytes(self._buffer[_HEAD.size : end]))
            if not isinstance(body, dict):
                raise MessageError("a message is no object")
            del self._buffer[:end]
            if count > len(self._files):
                raise MessageError("files are missing")
            messages.append((body, [self._files.popleft() for _ in range(count)]))
        return messages


class MessageWriter:
    """Sends messages through a socket that does not block; what it does not take waits."""

    def __init__(self, connection: socket.socket, wait: Callable[[bool], None]) -> None:
        """`wait` is called with True when the socket has to become writable, and with False then."""
        self._socket = connection
        self._wait = wait
        self._queue: deque[tuple[bytearray, list[int]]] = deque()

    def write(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        """The files are the writer's from now on; it closes them when they are sent. Raises OSError."""
        self._queue.append((bytearray(_packed(message, len(files))), [*files]))
        if len(self._queue) == 1:
            self.flush()

    def flush(self) -> None:
        """Raises OSError when the other side has gone."""
        while self._queue:
            data, files = self._queue[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
            try:
                sent = self._socket.sendmsg([data], rights)
            except (BlockingIOError, InterruptedError):
                self._wait(True)
                return
            while files:
                os.close(files.pop())
            del data[:sent]
            if not data:
                self._queue.popleft()
        self._wait(False)

    def close(self) -> None:
        for _data, files in self._queue:
            while files:
                os.close(files.pop())
        self._queue.clear()


class MessageConnection:
    """A connection of the running event loop, which it never holds up.

    `on_message` is called with each message and its files, which are the receiver's; `on_end` once, when the
    other side has gone or does not keep to the protocol.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_message: Callable[[dict[str, Any], list[int]], None],
        on_end: Callable[[], None],
    ) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._reader = MessageReader(connection)
        self._writer = MessageWriter(connection, self._wait)
        self._on_message, self._on_end = on_message, on_end
        self._loop.add_reader(connection.fileno(), self._readable)

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def send(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        """The files are the connection's from now on. Raises ConnectionError when the other side has gone."""
        if self.closed:
            for fd in files:
                os.close(fd)
            raise ConnectionError("the connection is closed")
        try:
            self._writer.write(message, files)
        except OSError as error:
            self._end()
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        if self.closed:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._reader.close()
        self._writer.close()

    def _wait(self, writable: bool) -> None:
        if writable:
            self._loop.add_writer(self._socket.fileno(), self._writable)
        else:
            self._loop.remove_writer(self._socket.fileno())

    def _writable(self) -> None:
        try:
            self._writer.flush()
        except OSError:
            self._end()

    def _readable(self) -> None:
        try:
            messages = self._reader.read()
        except (OSError, ValueError):
            messages = None
        if messages is None:
            self._end()
            return
        for body, files in messages:
            self._on_message(body, files)

    def _end(self) -> None:
        if not self.closed:
            self.close()
            self._on_end()


def _packed(message: Mapping[str, Any], files: int) -> bytes:
    content = json.dumps(message).encode()
    return _HEAD.pack(len(content), files) + content

"""The messages between a kubelet and its node's shim: a length, JSON, and files that go along.

The number of files stands in the message; they arrive before its end.
"""

import array
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

_HEAD = struct.Struct("!II")  # bytes of the body, number of files
_READ_BYTES = 262_144
_MOST_FILES = 64
_MOST_BYTES = 16 * 1024 * 1024


class MessageError(Exception):
    """The other side does not keep to the protocol."""


class MessageReader:
    """Puts messages together of what a socket that does not block has."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self._files: deque[int] = deque()

    def read(self) -> list[tuple[dict[str, Any], list[int]]] | None:
        """The messages that are complete, with their files; None at the end. Raises MessageError."""
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(
                _READ_BYTES, socket.CMSG_SPACE(_MOST_FILES * 4), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
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

    def _complete(self) -> list[tuple[dict[str, Any], list[int]]]:
        messages = []
        while len(self._buffer) >= _HEAD.size:
            length, count = _HEAD.unpack_from(self._buffer)
            if length > _MOST_BYTES or count > _MOST_FILES:
                raise MessageError(f"a message of {length} bytes and {count} files")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                break
            body = json.loads(bytes(self._buffer[_HEAD.size : end]))
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

    def write(self, body: dict[str, Any], files: Sequence[int] = ()) -> None:
        """The files are the writer's from now on; it closes them when they are sent."""
        content = json.dumps(body).encode()
        message = bytearray(_HEAD.pack(len(content), len(files)) + content)
        self._queue.append((message, [*files]))
        if len(self._queue) == 1:
            self.flush()

    def flush(self) -> None:
        """Raises OSError when the other side has gone."""
        while self._queue:
            message, files = self._queue[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
            try:
                sent = self._socket.sendmsg([message], rights)
            except (BlockingIOError, InterruptedError):
                self._wait(True)
                return
            while files:
                os.close(files.pop())
            del message[:sent]
            if not message:
                self._queue.popleft()
        self._wait(False)

    def close(self) -> None:
        for _message, files in self._queue:
            while files:
                os.close(files.pop())
        self._queue.clear()

"""Frames between a worker and the writer of its log: lists of messages over a Unix socket.

Both ends are forks of one process, and the socket has no name: so messages are pickled, 6 µs for an event of
1 kB on either side. What is sent within a turn of the loop goes as one frame, one system call.

A worker joins by the door, a socket that all have inherited: it puts one end of a new pair through it. What
lies in the door outlives the writer, and the next one finds it there.
"""

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

_HEAD = struct.Struct("!I")
UNSENT_BYTES_MAX = 256 << 20  # for a peer that reads nothing: then it has to join again

Message = tuple[Any, ...]  # a word, and what belongs to it


class FrameConnection(asyncio.Protocol):
    """Calls `received` with each message, in order, and `lost` once when the other side has gone."""

    def __init__(self, received: Callable[[Message], None], lost: Callable[[], None]) -> None:
        self._received = received
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._unsent: list[Message] = []

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _HEAD.size:
            end = start + _HEAD.size + _HEAD.unpack_from(buffer, start)[0]
            if len(buffer) < end:
                break
            with memoryview(buffer) as view, view[start + _HEAD.size : end] as content:
                messages = pickle.loads(content)  # noqa: S301 - of this process' own fork
            for message in messages:
                self._received(message)
            start = end
        del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def send(self, message: Message) -> None:
        """It goes with all that is sent until the loop's next turn; what finds no other side is lost."""
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.append(message)

    def flush(self) -> None:
        messages, self._unsent = self._unsent, []
        if messages:
            self.write(packed(messages))

    def write(self, frame: bytes) -> None:
        """Writes a frame that is packed already, after what was sent before."""
        if self._unsent:
            self.flush()
        if self._transport is None:
            return
        self._transport.write(frame)
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._transport.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def packed(messages: list[Message]) -> bytes:
    content = pickle.dumps(messages, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(content)) + content


def sendable(error: BaseException) -> Message:
    """Takes an error apart, whose class need not be made of its `args`."""
    return type(error), error.args, dict(vars(error))


def restored(parts: Message) -> Exception:
    kind, args, state = parts
    error: Exception = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


async def connected(
    end: socket.socket, received: Callable[[Message], None], lost: Callable[[], None]
) -> FrameConnection:
    """Takes one end of a pair over. Raises OSError."""
    end.setblocking(False)
    loop = asyncio.get_running_loop()
    _, frames = await loop.create_unix_connection(lambda: FrameConnection(received, lost), sock=end)
    return frames


class Door:
    """The two ends of the socket by which workers join; a forked process closes the one that it does not
    need.
    """

    def __init__(self) -> None:
        self._outside, self._inside = socket.socketpair()
        self._inside.setblocking(False)

    def knock(self) -> socket.socket:
        """Puts one end of a new pair through; returns the other. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._outside, [b"."], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours

    def watch(self, came: Callable[[socket.socket], None]) -> None:
        """Calls `came` with each end that is put through, those that wait there first."""
        asyncio.get_running_loop().add_reader(self._inside.fileno(), self._look, came)

    def _look(self, came: Callable[[socket.socket], None]) -> None:
        try:
            _, descriptors, _, _ = socket.recv_fds(self._inside, 1, 1)
        except (BlockingIOError, InterruptedError):
            return
        for descriptor in descriptors:
            came(socket.socket(fileno=descriptor))

    def unwatch(self) -> None:
        asyncio.get_running_loop().remove_reader(self._inside.fileno())

    def close(self) -> None:
        self._outside.close()
        self._inside.close()

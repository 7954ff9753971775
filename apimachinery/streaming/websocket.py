"""WebSocket messages over a pipe (RFC 6455), for either side of a connection."""

import base64
import hashlib
import os
import struct
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from kubeskew.apimachinery.streaming import Pipe, PipeReader

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LARGEST = 32 << 20
NORMAL, GOING_AWAY, PROTOCOL_ERROR = 1000, 1001, 1002


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Message(NamedTuple):
    """A whole message; `opcode` is TEXT or BINARY."""

    opcode: int
    data: bytes


def accept_key(key: str) -> str:
    """A server answers a `Sec-WebSocket-Key` with this `Sec-WebSocket-Accept`."""
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()  # as RFC 6455 has it
    return base64.b64encode(digest).decode()


class WebSocket:
    """One side of a connection. A `client` masks its messages, as the protocol requires."""

    def __init__(self, pipe: Pipe, *, client: bool = False) -> None:
        self._pipe = pipe
        self._client = client
        self._incoming = PipeReader(pipe)
        self._closed = False

    async def receive(self) -> Message | None:
        """None once the other side has closed. Answers pings."""
        opcode, parts = 0, bytearray()
        while True:
            frame = await self.frame()
            if frame is None:
                return None
            final, kind, data = frame
            if kind == Opcode.CLOSE:
                await self._answer_close(data)
                return None
            if kind == Opcode.PING:
                await self.send(data, Opcode.PONG)
            elif kind != Opcode.PONG:
                opcode = opcode or kind
                parts += data
                if len(parts) > _LARGEST:
                    return None
                if final:
                    return Message(opcode, bytes(parts))

    async def send(self, data: bytes, opcode: int = Opcode.BINARY) -> None:
        """Sends one message. Raises ConnectionError if the other side is gone."""
        await self._pipe.write(encode_frame(data, opcode, masked=self._client))

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Sends a close frame, once."""
        if not self._closed:
            self._closed = True
            await self.send(struct.pack(">H", code) + reason.encode(), Opcode.CLOSE)

    async def _answer_close(self, data: bytes) -> None:
        if not self._closed:
            self._closed = True
            with suppress(ConnectionError):  # the other side did not wait for it
                await self.send(data[:2], Opcode.CLOSE)

    async def frame(self) -> tuple[bool, int, bytes] | None:
        """(last of its message, opcode, payload); None at the end of the connection.

        Clients must mask their frames, and servers must not: a side that receives other frames ends the
        connection.
        """
        head = await self._incoming.take(2)
        if head is None:
            return None
        if bool(head[1] & 0x80) is self._client:
            with suppress(ConnectionError):  # the other side did not wait for it
                await self.close(PROTOCOL_ERROR)
            return None
        size: int = head[1] & 0x7F
        if size >= 126:
            extended = await self._incoming.take(2 if size == 126 else 8)
            if extended is None:
                return None
            size = int.from_bytes(extended, "big")
        if size > _LARGEST:
            return None
        mask = await self._incoming.take(4) if head[1] & 0x80 else b""
        data = await self._incoming.take(size) if mask is not None else None
        if mask is None or data is None:
            return None
        return bool(head[0] & 0x80), head[0] & 0x0F, _masked(data, mask) if mask else data


def encode_frame(data: bytes, opcode: int, *, masked: bool = False) -> bytes:
    """Each frame is final, so that a message is one frame."""
    size, bit = len(data), 0x80 if masked else 0
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + data
    mask = os.urandom(4)
    return head + mask + _masked(data, mask)


def _masked(data: bytes, mask: bytes) -> bytes:
    """XORs with the repeated mask, as one big number."""
    size = len(data)
    if not size:
        return b""
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")

"""grpc.health.v1's Check over one connection: as much of HTTP/2 and gRPC as it takes.

The answer is a data frame with the serving status. Of trailers nothing is read but that they end the stream.
"""

import struct
from typing import Protocol

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_UNAVAILABLE = (
    "error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: EOF"
)
_UNIMPLEMENTED = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "


class _Pipe(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


async def check_health(pipe: _Pipe, authority: str, service: str, agent: str) -> tuple[bool, str]:
    """(whether the service serves, upstream's text about it). Raises OSError."""
    name = service.encode()
    message = (b"\x0a" + _varint(len(name)) + name) if name else b""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": authority,
        "content-type": "application/grpc",
        "user-agent": agent,
        "te": "trailers",
    }
    block = b"".join(b"\x00" + _text(key) + _text(value) for key, value in headers.items())
    body = b"\0" + struct.pack(">I", len(message)) + message
    await pipe.write(
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, block)
        + _frame(_DATA, _END_STREAM, 1, body)
    )
    return await _answer(pipe)


async def _answer(pipe: _Pipe) -> tuple[bool, str]:
    held, data = b"", b""
    while True:
        while len(held) < 9 or len(held) < 9 + int.from_bytes(held[:3]):
            more = await pipe.read()
            if not more:
                return (
                    False,
                    _UNAVAILABLE,
                )
            held += more
        size, kind, flags = int.from_bytes(held[:3]), held[3], held[4]
        stream, payload = int.from_bytes(held[5:9]) & 0x7FFFFFFF, held[9 : 9 + size]
        held = held[9 + size :]
        if kind == _SETTINGS and not flags & _ACK:
            await pipe.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            await pipe.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _DATA and stream == 1:
            data += payload
        over = kind in {_RESET, _GOAWAY} or (
            stream == 1 and kind in {_DATA, _HEADERS} and bool(flags & _END_STREAM)
        )
        if over:
            return _verdict(data)


def _verdict(data: bytes) -> tuple[bool, str]:
    if len(data) < 5:
        return False, f"{_UNIMPLEMENTED}unknown service grpc.health.v1.Health"
    message = data[5 : 5 + int.from_bytes(data[1:5])]
    status = message[1] if message[:1] == b"\x08" and len(message) > 1 else 0
    if status == 1:
        return True, "service healthy"
    shown = _STATUSES[status] if status < len(_STATUSES) else str(status)
    return False, f'service unhealthy (responded with "{shown}")'


def _text(value: str) -> bytes:
    """A literal of HPACK without Huffman's code."""
    data = value.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    return b"\x7f" + _varint(len(data) - 127) + data


def _varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found, number = found + bytes([number % 128 | 128]), number // 128
    return found + bytes([number])


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload

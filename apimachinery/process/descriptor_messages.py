"""JSON with descriptors over a Unix socket: a length of four bytes, then the text, with SCM_RIGHTS."""

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

_LENGTH = struct.Struct("!I")
_LONGEST = 1 << 22
_DESCRIPTORS_MAX = 4


def send_message(connection: socket.socket, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Descriptors go with the first byte. Raises OSError."""
    body = json.dumps(message).encode()
    data = _LENGTH.pack(len(body)) + body
    sent = socket.send_fds(connection, [data], [*files]) if files else 0
    connection.sendall(data[sent:])


def receive_message(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """None at the end. Raises OSError, and ValueError for what is no message."""
    data, found, _, _ = socket.recv_fds(connection, 1 << 16, _DESCRIPTORS_MAX)
    try:
        while len(data) < _LENGTH.size or len(data) < _LENGTH.size + _LENGTH.unpack_from(data)[0]:
            if len(data) >= _LENGTH.size and _LENGTH.unpack_from(data)[0] > _LONGEST:
                raise ValueError("a message is too long")
            more = connection.recv(1 << 16)
            if not more:
                if data:
                    raise ValueError("a message breaks off")
                return None, []
            data += more
        message = json.loads(data[_LENGTH.size :])
        if not isinstance(message, dict):
            raise ValueError("a message is no object")
    except BaseException:
        for descriptor in found:
            os.close(descriptor)
        raise
    return message, list(found)

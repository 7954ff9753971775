"""Connections that end with a reset, as those of a process that dies with data unread."""

import asyncio
import logging
import socket
import struct
from typing import Final

_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: what is closed is reset

log = logging.getLogger(__name__)


def reset(transport: asyncio.Transport) -> None:
    """Drops what is still to be sent."""
    found: socket.socket | None = transport.get_extra_info("socket")
    if found is not None:
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        except OSError as error:  # it is closed already
            log.debug("cannot reset: %s", error)
    transport.abort()

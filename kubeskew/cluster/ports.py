"""Reserves loopback ports for servers that do not run yet.

A port is chosen before its server can listen, because kubeconfigs name it. Until then a socket that is bound,
but does not listen, reserves it. On Linux a server that sets SO_REUSEADDR, as asyncio's do, can bind the port
nevertheless.
"""

import random
import socket
from collections.abc import Iterable
from typing import Protocol, Self

# Below the usual range for outgoing connections, so that a port stays free while its server restarts.
PORTS = range(16443, 32000)


class Ports(Protocol):
    """Reserves ports for as long as the context lasts."""

    def choose(self, taken: Iterable[int]) -> int:
        """Reserves a port that nobody listens on or holds, and that is not in `taken`."""
        ...

    def keep(self, port: int) -> None:
        """Holds a port whose server has just stopped and will be started again."""
        ...

    def is_free(self, port: int) -> bool: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class HeldPorts:
    """Reserves ports of this machine by sockets. `chooser` picks among those in PORTS."""

    def __init__(self, chooser: random.Random | None = None) -> None:
        self._chooser = random.SystemRandom() if chooser is None else chooser
        self._sockets: list[socket.socket] = []

    def choose(self, taken: Iterable[int]) -> int:
        used = set(taken)
        while True:
            port = self._chooser.choice(PORTS)
            if port not in used and self._held(port, reuse=False):
                return port

    def keep(self, port: int) -> None:
        self._held(port, reuse=True)

    def is_free(self, port: int) -> bool:
        probe = _bound(port, reuse=True)
        if probe is None:
            return False
        probe.close()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._sockets:
            self._sockets.pop().close()

    def _held(self, port: int, *, reuse: bool) -> bool:
        """Without `reuse`, the port must not be bound now, nor have been lately."""
        found = _bound(port, reuse=reuse)
        if found is None:
            return False
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        self._sockets.append(found)
        return True


def _bound(port: int, *, reuse: bool) -> socket.socket | None:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
    try:
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        return None
    return found

"""Chooses loopback ports for servers that are not there yet.

A port is chosen before the server that is meant for it can listen: kubeconfigs name it. Until then a socket
that is bound, but does not listen, keeps it from everybody else who chooses. Linux lets a server that sets
SO_REUSEADDR, as asyncio's do, bind the port all the same.
"""

import random
import socket
from collections.abc import Iterable
from typing import Protocol, Self

# Below the usual range for outgoing connections, so that a port stays free while its server restarts.
PORTS = range(16443, 32000)


class Ports(Protocol):
    """Holds ports that nobody else chooses as long as this context lasts."""

    def choose(self, taken: Iterable[int]) -> int:
        """Returns a port that nobody listens on or holds, and that is not in `taken`; it is held now."""
        ...

    def keep(self, port: int) -> None:
        """Holds a port whose server has just stopped and will be back."""
        ...

    def is_free(self, port: int) -> bool:
        """Returns whether a server could listen on the loopback port."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class HeldPorts:
    """Holds ports of this machine by sockets. `chooser` picks among those in PORTS."""

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
        """Returns whether the port could be bound: without `reuse`, only if nobody is bound to it, or was
        of late."""
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

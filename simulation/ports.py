"""Ports of a simulation, given one after the other; and credentials that are the same every time."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Self

from cryptography.hazmat.primitives.asymmetric import ec

from kubeskew.cluster.credentials import write_credentials
from kubeskew.cluster.state import State, StateDir

_FIRST_PORT = 16443


class CountedPorts:
    """`cluster.ports.Ports` that nobody else can have."""

    def __init__(self) -> None:
        self._next = _FIRST_PORT

    def choose(self, taken: Iterable[int]) -> int:
        used = set(taken)
        while self._next in used:
            self._next += 1
        self._next += 1
        return self._next - 1

    def keep(self, port: int) -> None:
        """Does nothing: nobody else chooses."""

    def is_free(self, port: int) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: no port is held."""


class CountedKeys:
    """`cluster.pki.Keys` out of a counter: of clusters that nobody can reach."""

    repeatable = True

    def __init__(self) -> None:
        self._drawn = 0

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(f"simulation {self._drawn}".encode()).digest()

    def key(self) -> ec.EllipticCurvePrivateKey:
        return ec.derive_private_key(int.from_bytes(self._draw()[:31], "big"), ec.SECP256R1())

    def serial(self) -> int:
        return int.from_bytes(self._draw()[:16], "big")

    def token(self) -> str:
        return self._draw().hex()


def write_repeatable_credentials(directory: StateDir, state: State, now: datetime) -> None:
    """Writes the credentials that every cluster of these nodes and drivers has."""
    write_credentials(directory, state, now, CountedKeys())

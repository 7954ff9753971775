"""The seat of a worker: its socket to the supervisor, and what the supervisor reads of its load.

Messages are single bytes; a connection of a client goes along with its byte. So a worker gets connections one
at a time, and the supervisor gives each to the worker that has the fewest: workers that accept by themselves
from one socket take whole bursts, and sockets of their own (SO_REUSEPORT) deal a dozen connections by chance.
"""

import mmap
import socket
import struct
from collections.abc import Sequence

# from the worker
LISTENING, READY, FINISHING, REFUSE, ACCEPT, STOOD_ASIDE = b"L", b"R", b"F", b"X", b"O", b"K"
# from the supervisor
CONNECTION, ASIDE, ALONE = b"C", b"A", b"E"

_LOAD = struct.Struct("QQ")  # connections that were taken, and those that are open


class Loads:
    """Memory that all processes share, with the load of each worker."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, max(mmap.PAGESIZE, count * _LOAD.size))

    def write(self, place: int, taken: int, open_now: int) -> None:
        _LOAD.pack_into(self._memory, place * _LOAD.size, taken, open_now)

    def read(self, place: int) -> tuple[int, int]:
        taken, open_now = _LOAD.unpack_from(self._memory, place * _LOAD.size)
        return taken, open_now


class Seat:
    """The worker's side."""

    def __init__(self, connection: socket.socket, loads: Loads, place: int) -> None:
        self.connection = connection
        self._loads = loads
        self._place = place
        connection.setblocking(False)

    def say(self, message: bytes) -> None:
        """A supervisor that has ended hears nothing, and neither does this process live any more."""
        try:
            self.connection.send(message)
        except OSError:
            return

    def hear(self) -> tuple[bytes, Sequence[int]] | None:
        """One message with its descriptors; no bytes if the supervisor has ended, None if there is none."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self.connection, 1, 1)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b"", ()
        return message, descriptors

    def load(self, taken: int, open_now: int) -> None:
        self._loads.write(self._place, taken, open_now)

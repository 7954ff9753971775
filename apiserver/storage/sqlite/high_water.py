"""Keeps the high-water mark: a small file beside the database that tells how far the log had come.

SQLite forgets transactions silently when its write-ahead log is cut or lost, together with all that the
database itself could tell about them. So the newest committed revision stands outside too. It is written
after every commit and before anybody hears of that commit, so it never runs ahead of the log; nor does it
need to be synced: it outlives the process in the kernel's cache. It may lag by what a process had committed
when it was killed, and by the last half minute or so when the power goes.

Several servers share one file. It has many slots, a revision goes to the slot of its number, and the highest
one counts: nobody takes back what another has noted, and a write that is cut off spoils one slot alone.
"""

import os
import struct
from pathlib import Path
from typing import Self
from zlib import crc32

SLOTS = 64
SUFFIX = "-mark"
_SLOT = struct.Struct(">QI")


class HighWaterMark:
    """Holds the mark of the database at `path` open; nothing can be noted after `close`."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._noted = _highest(os.pread(file, SLOTS * _SLOT.size, 0))

    @classmethod
    def open(cls, database: str) -> Self:
        """Opens the mark of a database, which is made if there is none. Raises OSError."""
        return cls(os.open(mark_of(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    @property
    def revision(self) -> int:
        """Returns the highest revision that this process has noted, or found when it opened the mark."""
        return self._noted

    def note(self, revision: int) -> None:
        """Notes that `revision` is committed. Raises OSError."""
        if revision > self._noted:
            os.pwrite(self._file, _slot(revision), revision % SLOTS * _SLOT.size)
            self._noted = revision

    def close(self) -> None:
        """Lets go of the file; idempotent."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def mark_of(database: str) -> Path:
    """Returns the path of a database's mark."""
    return Path(f"{database}{SUFFIX}")


def read(database: str) -> int:
    """Returns the revision that the mark of a database tells of, 0 if there is none."""
    try:
        return _highest(mark_of(database).read_bytes())
    except FileNotFoundError:
        return 0


def _slot(revision: int) -> bytes:
    return _SLOT.pack(revision, crc32(b"%d" % revision))


def _highest(data: bytes) -> int:
    slots = _SLOT.iter_unpack(data[: len(data) // _SLOT.size * _SLOT.size])
    return max((revision for revision, checksum in slots if _is_whole(revision, checksum)), default=0)


def _is_whole(revision: int, checksum: int) -> bool:
    return revision > 0 and crc32(b"%d" % revision) == checksum

"""Guards the files under a running log: they must be those that were opened, and no shorter.

Who removes or replaces an open file is not noticed by SQLite: it goes on writing to what nobody will ever
read again. So both files are looked up by their names before and after every transaction, which costs two
microseconds each; once one is missed, nothing is written any more.
"""

import os
from contextlib import suppress
from pathlib import Path

from kubeskew.apiserver.storage.failures import DamageError, StorageError
from kubeskew.apiserver.storage.sqlite.high_water import HighWaterMark, read

_Identity = tuple[int, int]  # device and inode


class FileGuard:
    """Guards the files of the database at `path`; of one in memory there are none."""

    def __init__(self, path: str) -> None:
        self._path = "" if path == ":memory:" else path
        self._mark: HighWaterMark | None = None
        self._files: dict[str, _Identity] = {}
        self._missed = ""  # the file that was first found missing

    def check_there(self) -> None:
        """Raises DamageError if there has been a database, and there is none now."""
        if self._path and not Path(self._path).exists() and (mark := read(self._path)):
            damage = f"{self._path} is gone, though revision {mark} was committed to it"
            raise DamageError(damage, "Put it back, or remove the cluster with `kubeskew down --purge`")

    def start(self) -> None:
        """Remembers which files the database has, which is open. Raises OSError."""
        if not self._path:
            return
        self._mark = HighWaterMark.open(self._path)
        for name in (self._path, f"{self._path}-wal"):
            self._files[name] = identity(name)

    def gone(self) -> bool:
        """Decides whether a file of the database is not the one any more that was opened."""
        if not self._missed:
            self._missed = next((name for name, known in self._files.items() if identity(name) != known), "")
        return bool(self._missed)

    def check(self) -> None:
        """Raises StorageError if a file is gone."""
        if self.gone():
            raise StorageError(
                f"{self._missed} was removed or replaced while the server ran: nothing is written any more"
            )

    def note(self, revision: int) -> None:
        """Notes that `revision` is committed; what cannot be noted is no failure of the commit."""
        if self._mark is not None:
            with suppress(OSError):
                self._mark.note(revision)

    def close(self) -> None:
        """Lets go of the mark; idempotent."""
        if self._mark is not None:
            self._mark.close()


def identity(name: str) -> _Identity:
    """Returns the identity of a file, which differs from that of another of its name; zeros if
    there is none.
    """
    try:
        status = os.stat(name)  # noqa: PTH116 - twice a transaction
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino

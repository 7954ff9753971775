"""Finds the sockets in a directory and below it; looks again only when a directory has changed."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

# Distinguishes a socket from a new one at the same path: inode and time of the last change.
Stamp = tuple[int, int]


class SocketScan:
    """The sockets below `directory`; names that begin with a dot are ignored."""

    def __init__(self, directory: Path, *, always: bool = False) -> None:
        """With `always` each look reads the directories, whose times may not tell a change."""
        self._directory = str(directory)
        self._always = always
        self._changed: dict[str, int] = {}  # directory → when it last changed
        self._sockets: dict[str, Stamp] = {}
        self._fresh = True

    @property
    def fresh(self) -> bool:
        """Returns whether the last look found something new."""
        return self._fresh

    def look(self) -> Mapping[str, Stamp]:
        """Returns the stamps of all present sockets by path."""
        times = {path: _changed(path) for path in self._changed}
        stale = not times or times != self._changed
        # Times of changes are coarse: a change right after the last look does not show in them.
        if stale or self._fresh or self._always:
            before = self._sockets
            self._changed = {}
            self._sockets = dict(self._scan(self._directory))
            stale = stale if not self._always else self._sockets != before
        self._fresh = stale
        return self._sockets

    def _scan(self, directory: str) -> Iterator[tuple[str, Stamp]]:
        self._changed[directory] = _changed(directory)
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:
            return  # gone meanwhile
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._scan(entry.path)
            elif stat.S_ISSOCK(status.st_mode):
                yield entry.path, (status.st_ino, status.st_mtime_ns)


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116 - once a second per node: no Path objects
    except OSError:
        return 0

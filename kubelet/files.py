"""Writes state files completely or not at all, so that a kubelet killed at any point leaves a readable
one."""

import os
from pathlib import Path


class StateFiles:
    """Changes and reads the files in which a node's kubelet, runtime and drivers keep their state.

    Nothing waits for the disk: a crash of the machine may lose what was written last, as it loses the
    containers themselves; an empty file may be left.
    """

    def read(self, path: Path) -> bytes | None:
        """Returns what was written last; None if there is nothing, or a crash of the machine lost it."""
        try:
            return path.read_bytes() or None
        except FileNotFoundError:
            return None

    def write(self, path: Path, content: bytes) -> None:
        """Replaces the file's content."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
        temporary.write_bytes(content)
        temporary.replace(path)

    def append(self, path: Path, content: bytes) -> None:
        """Adds to the end of a file, which may be new. A process that is killed may leave a part of it."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("ab") as file:
            file.write(content)

    def remove(self, path: Path) -> None:
        """Removes the file, if it is there."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path, mode: int = 0o700) -> None:
        """Makes a directory that says something by being there."""
        path.mkdir(parents=True, exist_ok=True, mode=mode)

    def mark(self) -> None:
        """Takes note that a plugin is about to be called, which may change files of its own."""


TEMPORARY = ".tmp"  # how the names of files end that are not complete
UNJOURNALLED = StateFiles()

"""Writes state files completely or not at all, so that a kubelet killed at any point leaves a readable
one."""

import os
from collections.abc import Mapping
from pathlib import Path

from kubeskew.apimachinery.durable_files import flush, make_directory


class StateFiles:
    """Changes and reads the files in which a node's kubelet, runtime and drivers keep their state.

    Checkpoints and what drivers promise are `synced`: on the disk when `write` returns, as a kubelet's are
    upstream. Nothing else waits for the disk: a crash of the machine may lose what was written last, as it
    loses the containers themselves, or leave a part of it, which whoever reads it takes for none.
    """

    def read(self, path: Path) -> bytes | None:
        """None means that there is no file."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
        try:
            temporary.write_bytes(content)
        except FileNotFoundError:
            make_directory(path.parent)
            temporary.write_bytes(content)
        if synced:
            flush(temporary)
        temporary.replace(path)
        if synced:
            flush(path.parent)

    def append(self, path: Path, content: bytes) -> None:
        """Adds to the end of a file, which may be new. A process that is killed may leave a part of it."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("ab") as file:
            file.write(content)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path, mode: int = 0o700) -> None:
        """Makes a directory whose presence is state."""
        make_directory(path, mode)

    def mark(self) -> None:
        """Called when a plugin is about to be called, which may change files of its own."""


class FilesInMemory(StateFiles):
    """Keeps the files in a mapping by their paths, and nothing on a disk."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(contents)

    def read(self, path: Path) -> bytes | None:
        return self.contents.get(path.as_posix())

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        self.contents[path.as_posix()] = content

    def append(self, path: Path, content: bytes) -> None:
        self.write(path, self.contents.get(path.as_posix(), b"") + content)

    def remove(self, path: Path) -> None:
        self.contents.pop(path.as_posix(), None)

    def make_directory(self, path: Path, mode: int = 0o700) -> None:
        """Does nothing: a file is all that there is."""


TEMPORARY = ".tmp"  # how the names of files end that are not complete
UNJOURNALLED = StateFiles()

"""Changes the files of pods' volumes, with owners and modes.

Only root may give files to others. Without root a file keeps the kubelet's own user and groups; what could
not be changed is noted, so that it can be reported.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KEEP = -1  # a user or group that stays as it is


class Unchanged(NamedTuple):
    """A file whose owner could not be changed."""

    path: Path
    user: int
    group: int


class VolumeFiles:
    """The files below a node's directories. All calls raise OSError."""

    def __init__(self, *, is_root: bool | None = None) -> None:
        self._is_root = os.geteuid() == 0 if is_root is None else is_root
        self._unchanged: list[Unchanged] = []

    def take_unchanged(self) -> list[Unchanged]:
        """The files whose owners could not be changed since the last call."""
        unchanged, self._unchanged = self._unchanged, []
        return unchanged

    # -- reading

    def status(self, path: Path) -> os.stat_result | None:
        """Does not follow a link at the end; None if there is nothing."""
        try:
            return path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def names(self, directory: Path) -> list[str]:
        """Sorted; nothing if there is no such directory."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def below(self, path: Path) -> Iterator[tuple[Path, os.stat_result]]:
        """Yields files and directories with their status, each directory after what is in it."""
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            for name in self.names(path):
                yield from self.below(path / name)
        yield path, status

    def used_bytes(self, path: Path) -> int:
        """Adds up the blocks of all files, hard links once, as `du` does. What goes meanwhile is left out."""
        counted: set[tuple[int, int]] = set()
        total, pending = 0, [path]
        while pending:
            current = pending.pop()
            try:
                status = current.lstat()
                if stat.S_ISDIR(status.st_mode):
                    pending += current.iterdir()
            except OSError:
                continue
            identity = status.st_dev, status.st_ino
            if identity not in counted:
                counted.add(identity)
                total += status.st_blocks * 512
        return total

    # -- changing

    def make_directories(self, path: Path, mode: int) -> None:
        """Makes a directory and those above it; what is there already keeps its mode."""
        missing = []
        while not path.exists():
            missing.append(path)
            path = path.parent
        for directory in reversed(missing):
            directory.mkdir(mode=mode, exist_ok=True)

    def write(self, path: Path, content: bytes, mode: int) -> None:
        """Gives the file exactly this mode, whatever the process's mask is."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)

    def link(self, path: Path, target: str) -> None:
        path.symlink_to(target)

    def rename(self, path: Path, new: Path) -> None:
        path.rename(new)

    def change_mode(self, path: Path, mode: int) -> None:
        path.chmod(mode)

    def change_owner(self, path: Path, user: int, group: int) -> None:
        """Changes a link itself, not its file. Without root, takes note if that is not permitted."""
        try:
            os.lchown(path, user, group)
        except PermissionError:
            if self._is_root:
                raise
            self._unchanged.append(Unchanged(path, user, group))

    def remove(self, path: Path) -> None:
        """Removes a file or link; nothing happens if there is none."""
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Removes an empty directory."""
        path.rmdir()

    def remove_tree(self, path: Path) -> None:
        """Removes a file or a whole directory, also what is in directories that are locked."""
        status = self.status(path)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            path.unlink(missing_ok=True)
            return
        try:
            shutil.rmtree(path)
        except PermissionError:
            self._unlock(path)
            shutil.rmtree(path)

    def _unlock(self, directory: Path) -> None:
        """Makes directories accessible that a container has locked for all, its owner included."""
        status = directory.lstat()
        if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            directory.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        for name in self.names(directory):
            path = directory / name
            if stat.S_ISDIR(path.lstat().st_mode):
                self._unlock(path)


def go_error(operation: str, path: object, error: OSError) -> str:
    """Words an error of a system call as Go's os package does."""
    text = os.strerror(error.errno) if error.errno is not None else str(error)
    return f"{operation} {path}: {text[:1].lower()}{text[1:]}"

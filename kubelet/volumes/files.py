"""Changes the files of pods' volumes, with owners and modes.

Only root may give files to others. Without root a file keeps the kubelet's own user and groups; what could
not be changed is noted, so that it can be reported.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

KEEP = -1  # a user or group that stays as it is
_MASK = 0o022  # of a kubelet on a node
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # needs no permission to read


class Unchanged(NamedTuple):
    """A file whose owner could not be changed."""

    path: Path
    user: int
    group: int


class _Entry(NamedTuple):
    """A file or directory, named within the directory that the descriptor is open for."""

    directory: int
    name: str
    status: os.stat_result


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
        pending = [(path, path.lstat(), False)]
        while pending:
            current, status, is_read = pending.pop()
            if is_read or not stat.S_ISDIR(status.st_mode):
                yield current, status
                continue
            pending.append((current, status, True))
            inner = [current / name for name in reversed(self.names(current))]
            pending += [(each, each.lstat(), False) for each in inner]

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
        """Makes a directory and those above it, whatever the process's mask is; what is there already keeps
        its mode. Follows no link that gets there meanwhile.
        """
        missing: list[str] = []
        check_path(path)
        while not path.exists():
            missing.append(path.name)
            path = path.parent
        if missing:
            os.close(open_below(path, missing[::-1], mode & ~_MASK))

    def write(self, path: Path, content: bytes, mode: int) -> None:
        """Gives the file exactly this mode, whatever the process's mask is. Follows no link at the end, and
        waits for no pipe's reader."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
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
        """Removes a file or a whole directory, however deep, also what is in directories that a container
        has locked for all, its owner included."""
        if self.status(path) is None:
            return
        for entry in _unlocked_entries(path):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(entry.status.st_mode):
                    os.rmdir(entry.name, dir_fd=entry.directory)
                else:
                    os.unlink(entry.name, dir_fd=entry.directory)


class _Level(NamedTuple):
    """A directory that is being walked: its place in the one above, and what is yet to be visited."""

    name: str
    status: os.stat_result
    pending: list[str]


def _unlocked_entries(path: Path) -> Iterator[_Entry]:
    """Yields a file, or all that is in a directory and then the directory itself. Entries may be removed.

    Directories of this user are made accessible. One descriptor is open at a time, and no path is longer than
    a name: a container can nest directories deeper than there are descriptors, or than paths can be.
    """
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    levels = [_Level("", os.fstat(descriptor), [path.name])]
    try:
        while True:
            if levels[-1].pending:
                name = levels[-1].pending.pop()
                status = os.lstat(name, dir_fd=descriptor)
                if not stat.S_ISDIR(status.st_mode):
                    yield _Entry(descriptor, name, status)
                    continue
                _unlock(descriptor, name, status)
                descriptor = _moved(descriptor, name, status)
                with os.scandir(descriptor) as inner:
                    levels.append(_Level(name, status, sorted((each.name for each in inner), reverse=True)))
                continue
            left = levels.pop()
            if not levels:
                return
            descriptor = _moved(descriptor, "..", levels[-1].status)
            yield _Entry(descriptor, left.name, left.status)
    finally:
        os.close(descriptor)


def _moved(descriptor: int, name: str, expected: os.stat_result) -> int:
    """Closes the directory and opens another, named within it, which must be the expected one."""
    other = os.open(name, _DIRECTORY, dir_fd=descriptor)
    if not os.path.samestat(os.fstat(other), expected):
        os.close(other)
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), name)
    os.close(descriptor)
    return other


def _unlock(parent: int, name: str, status: os.stat_result) -> None:
    if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IMODE(status.st_mode) | stat.S_IRWXU, dir_fd=parent)


def open_below(base: Path, names: Sequence[str], mode: int) -> int:
    """Opens a directory below another as a place for more, and makes what is missing, with this mode.

    Follows no link below `base`. Raises OSError, NotADirectoryError where there is a link.
    """
    descriptor = os.open(base, _PLACE)
    for name in names:
        try:
            is_new = _make(descriptor, name, mode)
            inner = os.open(name, _DIRECTORY if is_new else _PLACE | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
        if is_new:
            os.fchmod(descriptor, mode)  # whatever the process's mask is
    return descriptor


def _make(directory: int, name: str, mode: int) -> bool:
    """Is False if there is something of that name already."""
    try:
        os.mkdir(name, mode, dir_fd=directory)
    except FileExistsError:
        return False
    return True


def check_path(path: object) -> None:
    """Raises OSError for a path that no system call takes, as Go does."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))


def go_error(operation: str, path: object, error: OSError) -> str:
    """Words an error of a system call as Go's os package does."""
    text = os.strerror(error.errno) if error.errno is not None else str(error)
    return f"{operation} {path}: {text[:1].lower()}{text[1:]}"

"""The files that a fake container sees: a tree in memory, with volumes mounted into it."""

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

DIRECTORY_MODE, FILE_MODE = 0o755, 0o644
_LARGEST_FILE = 64 << 20
_MOST_LINKS = 8


class FileError(OSError):
    """A command's error about a path; the text is libc's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(slots=True)
class File:
    """A file; `data` is None for a directory, `target` is set for a link, `changed` is a POSIX time."""

    data: bytes | None
    mode: int = FILE_MODE
    changed: float = 0.0
    target: str = ""

    @property
    def is_directory(self) -> bool:
        return self.data is None


class Tree:
    """The files of one volume, by path from its top; the top itself is the empty path."""

    def __init__(
        self, files: Mapping[str, bytes] | None = None, changed: float = 0.0, *, read_only: bool = False
    ) -> None:
        self.read_only = read_only
        self.entries: dict[str, File] = {"": File(None, DIRECTORY_MODE, changed)}
        for path, data in (files or {}).items():
            self.put(path, File(data, changed=changed))

    def put(self, path: str, file: File) -> None:
        """Puts a file at a path, with the directories above it."""
        parent = posixpath.dirname(path)
        while parent and parent not in self.entries:
            self.entries[parent] = File(None, DIRECTORY_MODE, file.changed)
            parent = posixpath.dirname(parent)
        self.entries[path] = file

    def children(self, path: str) -> Iterator[str]:
        prefix = f"{path}/" if path else ""
        for name in self.entries:
            if name and name.startswith(prefix) and "/" not in name[len(prefix) :]:
                yield name[len(prefix) :]


@dataclass(frozen=True, slots=True)
class Mount:
    path: str
    tree: Tree
    read_only: bool = False
    top: str = ""  # the path in the tree that is mounted: a subPath


@dataclass(slots=True)
class FileSystem:
    """A root tree and mounts. Paths given are absolute."""

    root: Tree
    mounts: list[Mount] = field(default_factory=list)
    changed: Callable[[Tree, str], None] | None = None  # called with each change

    def look(self, path: str) -> File | None:
        """Returns the file at a path, following links."""
        mount, inner = self._at(self.resolved(path))
        return mount.tree.entries.get(inner)

    def read(self, path: str) -> bytes:
        found = self.look(path)
        if found is None:
            raise FileError("No such file or directory")
        if found.data is None:
            raise FileError("Is a directory")
        return found.data

    def names(self, path: str) -> list[str]:
        """Lists the names in a directory, sorted."""
        found = self.look(path)
        if found is None:
            raise FileError("No such file or directory")
        if not found.is_directory:
            raise FileError("Not a directory")
        mount, inner = self._at(path)
        below = f"{path.rstrip('/')}/"
        mounted = [
            mount.path[len(below) :].split("/")[0] for mount in self.mounts if mount.path.startswith(below)
        ]
        return sorted({*mount.tree.children(inner), *mounted})

    def write(self, path: str, data: bytes, now: float, *, append: bool = False, mode: int = 0) -> None:
        path = self.resolved(path)
        mount, inner = self._writable(path)
        found = mount.tree.entries.get(inner)
        if found is not None and found.is_directory:
            raise FileError("Is a directory")
        parent = self.look(posixpath.dirname(path))
        if parent is None:
            raise FileError("No such file or directory")
        if not parent.is_directory:
            raise FileError("Not a directory")
        before = (found.data or b"") if append and found is not None else b""
        kept = found.mode if found is not None else FILE_MODE
        if len(before) + len(data) > _LARGEST_FILE:
            raise FileError("No space left on device")
        self._put(mount.tree, inner, File(before + data, mode or kept, now))

    def make_directory(self, path: str, now: float, *, parents: bool = False) -> None:
        if parents and path not in {"", "/"} and self.look(posixpath.dirname(path)) is None:
            self.make_directory(posixpath.dirname(path), now, parents=True)
        found = self.look(path)
        if found is not None:
            if parents and found.is_directory:
                return
            raise FileError("File exists")
        if self.look(posixpath.dirname(path)) is None:
            raise FileError("No such file or directory")
        mount, inner = self._writable(path)
        self._put(mount.tree, inner, File(None, DIRECTORY_MODE, now))

    def link(self, path: str, target: str, now: float) -> None:
        """Makes a symbolic link."""
        mount, inner = self._writable(path)
        if inner in mount.tree.entries:
            raise FileError("File exists")
        if self.look(posixpath.dirname(path)) is None:
            raise FileError("No such file or directory")
        self._put(mount.tree, inner, File(b"", 0o777, now, target))

    def change_mode(self, path: str, mode: int) -> None:
        file = self.look(path)
        if file is None:
            raise FileError("No such file or directory")
        mount, inner = self._writable(self.resolved(path))
        self._put(mount.tree, inner, replace(file, mode=mode))

    def resolved(self, path: str) -> str:
        """Returns the path with links at its end followed."""
        for _ in range(_MOST_LINKS):
            mount, inner = self._at(path)
            file = mount.tree.entries.get(inner)
            if file is None or not file.target:
                return path
            path = join(posixpath.dirname(path), file.target)
        raise FileError("Too many levels of symbolic links")

    def link_at(self, path: str) -> File | None:
        """Returns the file at a path, without following a link there."""
        mount, inner = self._at(path)
        return mount.tree.entries.get(inner)

    def _put(self, tree: Tree, inner: str, file: File) -> None:
        tree.entries[inner] = file
        if self.changed is not None:
            self.changed(tree, inner)

    def remove(self, path: str) -> None:
        """Removes a file, or a directory and all in it."""
        mount, inner = self._writable(path)
        if inner not in mount.tree.entries:
            raise FileError("No such file or directory")
        if not inner or any(mount.path == path for mount in self.mounts):
            raise FileError("Device or resource busy")
        for name in [n for n in mount.tree.entries if n == inner or n.startswith(f"{inner}/")]:
            del mount.tree.entries[name]
            if self.changed is not None:
                self.changed(mount.tree, name)

    def walk(self, path: str) -> Iterator[tuple[str, File]]:
        """Yields the path and all below it."""
        found = self.look(path)
        if found is None:
            raise FileError("No such file or directory")
        yield path, found
        if found.is_directory:
            for name in self.names(path):
                yield from self.walk(join(path, name))

    def _writable(self, path: str) -> tuple[Mount, str]:
        mount, inner = self._at(path)
        if mount.read_only:
            raise FileError("Read-only file system")
        return mount, inner

    def _at(self, path: str) -> tuple[Mount, str]:
        """Returns the mount that a path lies in, and its path there."""
        best = Mount("", self.root)
        for mount in self.mounts:
            if path == mount.path or path.startswith(f"{mount.path}/"):
                best = mount if len(mount.path) > len(best.path) else best
        inner = path[len(best.path) :].strip("/")
        return best, f"{best.top}/{inner}".strip("/") if best.top else inner


def join(directory: str, path: str) -> str:
    """Returns `path` relative to `directory`, absolute and without `.` and `..`."""
    joined = posixpath.normpath(posixpath.join(directory or "/", path))
    return "/" + joined.lstrip("/")

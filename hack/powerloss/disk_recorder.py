"""Takes down what the product does to the files below a directory as a history: see recorded_disk.py.

SQLite's calls come from its own file layer (sqlite_files.py). The calls of Python that name, remove and sync
files are taken down as they are made; what was written in between is found by looking: a file that went on is
an append, another one was emptied and written.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from recorded_disk import History, Link, Rename, Sync, Truncate, Unlink, Write

LEFT_OUT = ("-shm",)  # memory shared by processes, which SQLite makes again
IN_PLACE = ("-mark",)  # written in slots
_Seen = tuple[int, int, int, int]  # device, inode, size, time


class Recorder:
    """Records from the state that it finds, which is taken for synced."""

    # A disk that lies about syncs of files and directories at such paths is a defect to be planted.
    ignores_syncs: Callable[[str], bool] = staticmethod(lambda _: False)

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = History()
        self.managed: set[int] = set()  # whose contents SQLite's file layer reports
        self._seen: dict[str, _Seen] = {}
        self._real: dict[str, Callable[..., Any]] = {}
        self._looking = threading.RLock()  # files are synced by several threads at a time
        self.observe()
        for file in sorted(self.history.contents.keys() | self.history.directories):
            self.history.add(Sync(file, len(self.history.operations)))
        self.start = len(self.history.operations)

    @property
    def position(self) -> int:
        return len(self.history.operations)

    def parts(self, path: str | os.PathLike[str]) -> tuple[str, ...] | None:
        """None for a path outside of the root."""
        try:
            return Path(os.path.abspath(path)).relative_to(self.root).parts  # noqa: PTH100 - links stay
        except ValueError:
            return None

    def find(self, path: str | os.PathLike[str]) -> int | None:
        parts = self.parts(path)
        return None if parts is None else self.history.find(parts)

    def opened(self, path: str) -> int | None:
        """SQLite has opened the file. None if it is not below the root."""
        with self._looking:
            return self._opened(path)

    def _opened(self, path: str) -> int | None:
        parts = self.parts(path)
        if parts is None or path.endswith(LEFT_OUT):
            return None
        found = self.history.find(parts)
        if found is None:
            place = self.history.place(parts)
            if place is None:
                self.observe()
                place = self.history.place(parts)
            assert place is not None
            found = self.history.number()
            self.history.contents[found] = bytearray()
            self.history.add(Link(place, found))
        self.managed.add(found)
        return found

    def observe(self) -> None:
        """Takes down what has changed below the root since the last look."""
        with self._looking:
            self._look_around()

    def _look_around(self) -> None:
        there: set[str] = set()
        for directory, below, names in os.walk(self.root):
            for name in sorted(below + names):
                if not name.endswith(LEFT_OUT):
                    path = f"{directory}/{name}"
                    there.add(path)
                    self._look(path)
        for path in [path for path in self._seen if path not in there]:
            del self._seen[path]
            self._forget(path)

    def _look(self, path: str) -> None:
        status = os.lstat(path)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return
        seen = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        before = self._seen.get(path)
        if before == seen:
            return
        self._seen[path] = seen
        parts = self.parts(path)
        assert parts is not None
        place = self.history.place(parts)
        assert place is not None, path
        number = self.history.names.get(place)
        directory = stat.S_ISDIR(status.st_mode)
        if number is None or (before is not None and before[:2] != seen[:2] and number not in self.managed):
            number = self.history.number()
            if directory:
                self.history.directories.add(number)
            else:
                self.history.contents[number] = bytearray()
            self.history.add(Link(place, number))
        if not directory and number not in self.managed:
            self._compare(path, number)

    def _compare(self, path: str, number: int) -> None:
        with open(path, "rb", opener=self._opener) as file:
            content = file.read()
        known = bytes(self.history.contents.setdefault(number, bytearray()))
        if content == known:
            return
        if content.startswith(known):
            self.history.add(Write(number, len(known), content[len(known) :]))
        elif path.endswith(IN_PLACE):
            differing = [place for place in range(len(content)) if content[place] != known[place]]
            self.history.add(Write(number, differing[0], content[differing[0] : differing[-1] + 1]))
        else:
            self.history.add(Truncate(number, 0))
            self.history.add(Write(number, 0, content))

    def _opener(self, path: str, flags: int) -> int:
        return os.open(path, flags)

    def _forget(self, path: str) -> None:
        parts = self.parts(path)
        assert parts is not None
        place = self.history.place(parts)
        if place is not None and place in self.history.names:
            self.history.add(Unlink(place))

    # --

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Takes down Python's calls meanwhile."""
        names = ("fsync", "fdatasync", "rename", "replace", "unlink", "remove", "link", "mkdir", "rmdir")
        self._real = {name: getattr(os, name) for name in names}
        patched = {name: self._observed(name) for name in ("mkdir", "rmdir", "unlink", "remove")}
        patched |= {name: self._syncing(name) for name in ("fsync", "fdatasync")}
        patched["link"] = self._linking
        patched |= {name: self._renaming(name) for name in ("rename", "replace")}
        patched = {name: self._one_by_one(call) for name, call in patched.items()}
        with patch.multiple(os, **patched):
            yield
        self.observe()

    def _one_by_one(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def locked(*arguments: Any, **named: Any) -> Any:
            with self._looking:
                return call(*arguments, **named)

        return locked

    def _observed(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.observe()
            try:
                return self._real[name](*arguments, **named)
            finally:
                self.observe()

        return call

    def _syncing(self, name: str) -> Callable[..., Any]:
        def call(descriptor: int) -> Any:
            self.observe()
            path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            number = self.find(path)
            since = self.position
            self._real[name](descriptor)
            if number is not None and not self.ignores_syncs(path):
                self.history.add(Sync(number, since))

        return call

    def _linking(self, old: Any, new: Any, **named: Any) -> None:
        self.observe()
        self._real["link"](old, new, **named)
        number, parts = self.find(old), self.parts(new)
        place = None if parts is None else self.history.place(parts)
        if number is not None and place is not None:
            self.history.add(Link(place, number))

    def _renaming(self, name: str) -> Callable[..., Any]:
        def call(old: Any, new: Any, **named: Any) -> Any:
            self.observe()
            self._real[name](old, new, **named)
            before, after = self.parts(old), self.parts(new)
            if before is None or after is None:
                self.observe()
                return
            places = self.history.place(before), self.history.place(after)
            assert places[0] is not None
            assert places[1] is not None
            self.history.add(Rename(places[0], places[1]))
            self._moved(str(self.root.joinpath(*before)), str(self.root.joinpath(*after)))
            self.observe()

        return call

    def _moved(self, old: str, new: str) -> None:
        moved = {path: seen for path, seen in self._seen.items() if path == old or path.startswith(f"{old}/")}
        for path in [path for path in self._seen if path == new or path.startswith(f"{new}/")]:
            del self._seen[path]
        for path, seen in moved.items():
            del self._seen[path]
            self._seen[new + path[len(old) :]] = seen

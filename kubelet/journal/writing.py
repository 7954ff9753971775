"""Writes a node's files with a journal: each change first to the file, then to the journal, under a lock.

What a kubelet has acted on is in the journal: one that dies between the two leaves a file that the next one
finds changed when it starts (`reconcile`), as it finds what an operator has removed or edited by hand.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kubeskew.kubelet.files import TEMPORARY, StateFiles
from kubeskew.kubelet.journal import segments
from kubeskew.kubelet.journal.segments import DIRECTORY, KEPT, Files, Record

_SEGMENT_BYTES = 2 << 20
_SNAPSHOTS = 4  # a segment has room for so many times what the node's files hold


class JournalledFiles(StateFiles):
    """The files below a node's directory, whose changes are journalled. Several processes may write there."""

    def __init__(self, node: Path, newest_revision: Callable[[], int], most: int = _SEGMENT_BYTES) -> None:
        """`newest_revision` returns the newest that the writer has seen; `most` are the bytes of a
        segment."""
        self._node = node
        self._journal = node / DIRECTORY
        self._newest_revision = newest_revision
        self._most = most
        self._marked = 0

    def write(self, path: Path, content: bytes) -> None:
        with self._locked():
            super().write(path, content)
            self._note(segments.with_content(self._newest_revision(), "write", self._name(path), content))

    def append(self, path: Path, content: bytes) -> None:
        with self._locked():
            super().append(path, content)
            self._note(segments.with_content(self._newest_revision(), "append", self._name(path), content))

    def remove(self, path: Path) -> None:
        with self._locked():
            if path.exists():
                super().remove(path)
                self._note({"revision": self._newest_revision(), "remove": self._name(path)})

    def make_directory(self, path: Path, mode: int = 0o700) -> None:
        with self._locked():
            if not path.is_dir():
                super().make_directory(path, mode)
                self._note({"revision": self._newest_revision(), "directory": self._name(path)})

    def mark(self) -> None:
        """Notes the revision by itself: what the plugin writes then is not taken for older than it is."""
        revision = self._newest_revision()
        if revision > self._marked:
            with self._locked():
                self._note({"revision": revision})

    def reconcile(self) -> None:
        """Journals what differs from the journal, before anything acts on it."""
        with self._locked():
            known, found = self._state()[0], self._found()
            revision = self._newest_revision()
            for name in sorted({*known} - {*found}):
                if not (name.endswith("/") and (self._node / name).is_dir()):
                    self._note({"revision": revision, "remove": name})
            for name, content in sorted(found.items()):
                if known.get(name) != content:
                    self._note(segments.with_content(revision, "write", name, content))

    # --

    def _name(self, path: Path) -> str:
        return path.relative_to(self._node).as_posix()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the journal against the node's other writers."""
        try:
            lock = os.open(self._journal, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            self._journal.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._journal, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _note(self, record: Record) -> None:
        """Appends to the newest segment, and begins the next one when that is full."""
        known = segments.numbers(self._journal)
        path = segments.segment_path(self._journal, known[-1] if known else 1)
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":  # its writer was killed
                    file.write(b"\n")
            file.write(segments.line(record))
            size = file.tell()
        self._marked = max(self._marked, record["revision"])
        if size > self._most:
            self._begin_segment(size)

    def _begin_segment(self, size: int) -> None:
        files, revision = self._state()
        beginning = segments.snapshot(files, revision)
        if size <= _SNAPSHOTS * len(beginning):
            return
        number = segments.numbers(self._journal)[-1] + 1
        path = segments.segment_path(self._journal, number)
        temporary = path.with_name(f".{path.name}{TEMPORARY}")
        temporary.write_bytes(beginning)
        temporary.replace(path)
        for old in segments.numbers(self._journal)[:-KEPT]:
            segments.segment_path(self._journal, old).unlink()

    def _state(self) -> tuple[Files, int]:
        """Returns the files as the journal has them, and the revision of the last change."""
        files: Files = {}
        revision = 0
        known = segments.numbers(self._journal)
        if known:
            content = segments.segment_path(self._journal, known[-1]).read_bytes()
            for position in segments.positions(content):
                segments.apply(files, position.record)
                revision = position.revision
        return files, revision

    def _found(self) -> Files:
        """Returns the files that there are; no sockets, and nothing incomplete."""
        found: Files = {}
        for directory, below, names in os.walk(self._node):
            if Path(directory) == self._node:
                below[:] = [name for name in below if name != DIRECTORY]
            for name in names:
                path = Path(directory, name)
                if path.is_file() and not path.is_symlink() and not name.endswith(TEMPORARY):
                    found[self._name(path)] = path.read_bytes()
        return found

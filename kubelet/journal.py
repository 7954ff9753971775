"""The journal of a node's files: what was written to them, with the revision that was current then.

It is segments of JSON lines in `NODE/journal/`, each a record of one change.

    {"revision": 117, "write": "kubelet/dra_manager_state", "text": "…"}
    {"revision": 118, "append": "runtime/events.jsonl", "text": "…"}
    {"revision": 119, "write": "runtime/files/x", "base64": "…"}        what is not UTF-8
    {"revision": 119, "remove": "runtime/UID.json"}
    {"revision": 120, "directory": "kubelet/device-plugins"}
    {"revision": 121}                                                  a plugin is about to be called

Paths are relative to the node's directory. `revision` is the newest that the writer had seen; the revision of
a change is the largest up to its record, because the writers of a node, the kubelet and drivers, follow each
other's changes. Segments are numbered, `00000001.jsonl`, and only ever appended to. Each but the first begins
with all files as they were, `{"revision": 120, "snapshot": true}` last of them; when there are more than
`KEPT`, the oldest is removed. A line that was cut off by the end of its writer is no record.

Each change is written first to the file, then to the journal, under a lock. What a kubelet has acted on is in
the journal: one that dies between the two leaves a file that the next one finds changed when it starts
(`reconcile`), as it finds what an operator has removed or edited by hand. The journal can be read while
kubelets run.
"""

import base64
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.durable_files import flush, make_directory
from kubeskew.kubelet.files import TEMPORARY, StateFiles
from kubeskew.kubelet.protocols.message_sockets import Channel, ForwardingChannel

DIRECTORY = "journal"
# What containers that are processes of this machine have and write is no state of the kubelet's.
PROGRAMS = ("host", "logs", "root")
VOLUMES = "pods"  # in the kubelet's own directory
KEPT = 4
_SUFFIX = ".jsonl"

Files = dict[str, bytes]  # content by path; a directory's path ends with a slash
Record = dict[str, Any]
_SEGMENT_BYTES = 2 << 20
_SNAPSHOTS = 4  # a segment has room for so many times what the node's files hold


class Position(NamedTuple):
    """A record with the revision of its change, and the offset at which it ends."""

    record: Record
    revision: int
    end: int


def segment_path(journal: Path, number: int) -> Path:
    return journal / f"{number:08}{_SUFFIX}"


def segment_numbers(journal: Path) -> list[int]:
    """The oldest comes first."""
    try:
        names = [path.name for path in journal.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def positions(content: bytes) -> Iterator[Position]:
    """Records come in their order; lines that were cut off are left out."""
    revision = end = 0
    for record_line in content.splitlines(keepends=True):
        end += len(record_line)
        record = _parsed(record_line)
        if record is not None:
            revision = max(revision, record["revision"])
            yield Position(record, revision, end)


def apply_record(files: Files, record: Record) -> None:
    if "write" in record:
        files[record["write"]] = _content(record)
    elif "append" in record:
        files[record["append"]] = files.get(record["append"], b"") + _content(record)
    elif "remove" in record:
        files.pop(record["remove"], None)
    elif "directory" in record:
        files[f"{record['directory']}/"] = b""


def with_content(revision: int, change: str, path: str, content: bytes) -> Record:
    try:
        return {"revision": revision, change: path, "text": content.decode()}
    except UnicodeDecodeError:
        return {"revision": revision, change: path, "base64": base64.b64encode(content).decode()}


def snapshot(files: Files, revision: int) -> bytes:
    """A segment begins with all files as they are."""
    records: list[Record] = [
        {"revision": revision, "directory": path[:-1]}
        if path.endswith("/")
        else with_content(revision, "write", path, content)
        for path, content in sorted(files.items())
    ]
    return b"".join(map(record_line, [*records, {"revision": revision, "snapshot": True}]))


def record_line(record: Record) -> bytes:
    return orjson.dumps(record) + b"\n"


def _parsed(text: bytes) -> Record | None:
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    known = isinstance(record, dict) and isinstance(record.get("revision"), int)
    return record if known and text.endswith(b"\n") else None


def _content(record: Record) -> bytes:
    if "base64" in record:
        return base64.b64decode(record["base64"])
    text: str = record["text"]
    return text.encode()


class FilesForgottenError(Exception):
    """The journal does not reach back to the revision; the text says how far it does."""


def node_files_at(node: Path, revision: int) -> Files:
    """Reads the newest segment up to the revision. Raises FilesForgottenError."""
    files: Files = {}
    for _, content in _segments_until(node, revision)[-1:]:
        for position in positions(content):
            apply_record(files, position.record)
    return files


def restore_node(node: Path, revision: int, target: Path) -> None:
    """Writes a node's files, and its journal so far, to another directory, which must not exist.

    Raises FilesForgottenError.
    """
    journal = _segments_until(node, revision)
    files = node_files_at(node, revision)
    (target / DIRECTORY).mkdir(parents=True, mode=0o700)
    for name, content in files.items():
        path = target / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            continue
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)
    for number, content in journal:
        segment_path(target / DIRECTORY, number).write_bytes(content)


def _segments_until(node: Path, revision: int) -> list[tuple[int, bytes]]:
    """Segments are (number, content) up to the revision, the last one cut off after it.

    Raises FilesForgottenError.
    """
    found: list[tuple[int, bytes]] = []
    for number, content in _segments(node / DIRECTORY):
        end, later = 0, False
        for position in positions(content):
            later = position.revision > revision
            if later:
                break
            end = position.end
        if end:
            found.append((number, content[:end]))
        if later:
            break
    oldest = next(_segments(node / DIRECTORY), None)
    if not found and oldest is not None and oldest[0] > 1:
        first = next(positions(oldest[1])).revision
        raise FilesForgottenError(
            f"the files of node {node.name} are known from revision {first} on, not at {revision}"
        )
    return found


def _segments(journal: Path) -> Iterator[tuple[int, bytes]]:
    for number in segment_numbers(journal):
        try:
            yield number, segment_path(journal, number).read_bytes()
        except FileNotFoundError:  # a running kubelet has just removed it as the oldest
            continue


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
        self._flushed: set[Path] = set()  # directories whose names are on the disk

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        with self._locked():
            if synced:
                self._flush_way(path.parent)
            super().write(path, content, synced=synced)
            record = with_content(self._newest_revision(), "write", self._name(path), content)
            self._note(record, synced=synced)

    def append(self, path: Path, content: bytes) -> None:
        with self._locked():
            super().append(path, content)
            self._note(with_content(self._newest_revision(), "append", self._name(path), content))

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
            known, found = self._state()[0], self.found()
            revision = self._newest_revision()
            for name in sorted({*known} - {*found}):
                if not (name.endswith("/") and (self._node / name).is_dir()):
                    self._note({"revision": revision, "remove": name})
            for name, content in sorted(found.items()):
                if known.get(name) != content:
                    self._note(with_content(revision, "write", name, content))

    # --

    def _flush_way(self, directory: Path) -> None:
        """Flushes the names on the way to a directory, once: others may have made it."""
        if directory not in self._flushed:
            make_directory(directory)
            for above in directory.parents:
                if above.is_relative_to(self._node.parent):
                    flush(above)
            self._flushed.add(directory)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._node).as_posix()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the journal against the node's other writers."""
        try:
            lock = os.open(self._journal, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            make_directory(self._journal)
            lock = os.open(self._journal, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _note(self, record: Record, *, synced: bool = False) -> None:
        """Appends to the newest segment, and begins the next one when that is full.

        All records up to a synced one are on the disk then.
        """
        known = segment_numbers(self._journal)
        path = segment_path(self._journal, known[-1] if known else 1)
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":  # its writer was killed
                    file.write(b"\n")
            file.write(record_line(record))
            size = file.tell()
            if synced:
                file.flush()
                os.fsync(file.fileno())
        if not known:
            flush(self._journal)
        self._marked = max(self._marked, record["revision"])
        if size > self._most:
            self._begin_segment(size)

    def _begin_segment(self, size: int) -> None:
        files, revision = self._state()
        beginning = snapshot(files, revision)
        if size <= _SNAPSHOTS * len(beginning):
            return
        last = segment_numbers(self._journal)[-1]
        flush(segment_path(self._journal, last))  # what is synced later must not have a gap before it
        number = last + 1
        path = segment_path(self._journal, number)
        temporary = path.with_name(f".{path.name}{TEMPORARY}")
        temporary.write_bytes(beginning)
        flush(temporary)
        temporary.replace(path)
        flush(self._journal)  # before anything is synced to the new one alone
        for old in segment_numbers(self._journal)[:-KEPT]:
            segment_path(self._journal, old).unlink()

    def _state(self) -> tuple[Files, int]:
        files: Files = {}
        revision = 0
        known = segment_numbers(self._journal)
        if known:
            content = segment_path(self._journal, known[-1]).read_bytes()
            for position in positions(content):
                apply_record(files, position.record)
                revision = position.revision
        return files, revision

    def found(self) -> Files:
        """Sockets, links and incomplete files are left out; so are the journal and what programs write."""
        found: Files = {}
        for directory, below, names in os.walk(self._node):
            if Path(directory) == self._node:
                below[:] = [name for name in below if name not in (DIRECTORY, *PROGRAMS)]
            elif Path(directory) == self._node / "kubelet":
                below[:] = [name for name in below if name != VOLUMES]
            for name in names:
                path = Path(directory, name)
                if path.is_file() and not path.is_symlink() and not name.endswith(TEMPORARY):
                    found[self._name(path)] = path.read_bytes()
        return found


class MarkedChannel(ForwardingChannel):
    """A channel to a plugin. Each call is marked, for the plugin knows fewer revisions than the kubelet."""

    def __init__(self, channel: Channel, files: StateFiles) -> None:
        super().__init__(channel)
        self._files = files

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        self._files.mark()
        return await super().call(path, request, timeout)

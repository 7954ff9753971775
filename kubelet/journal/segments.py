"""The journal's files: segments of JSON lines in `NODE/journal/`, each a record of one change.

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
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

DIRECTORY = "journal"
KEPT = 4
_SUFFIX = ".jsonl"

Files = dict[str, bytes]  # content by path; a directory's path ends with a slash
Record = dict[str, Any]


class Position(NamedTuple):
    """A record with the revision of its change, and the offset at which it ends."""

    record: Record
    revision: int
    end: int


def segment_path(journal: Path, number: int) -> Path:
    return journal / f"{number:08}{_SUFFIX}"


def numbers(journal: Path) -> list[int]:
    """Returns the numbers of the segments that there are, oldest first."""
    try:
        names = [path.name for path in journal.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def positions(content: bytes) -> Iterator[Position]:
    """Yields the records of a segment in their order."""
    revision = end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        record = _parsed(line)
        if record is not None:
            revision = max(revision, record["revision"])
            yield Position(record, revision, end)


def apply(files: Files, record: Record) -> None:
    """Makes the change of a record."""
    if "write" in record:
        files[record["write"]] = _content(record)
    elif "append" in record:
        files[record["append"]] = files.get(record["append"], b"") + _content(record)
    elif "remove" in record:
        files.pop(record["remove"], None)
    elif "directory" in record:
        files[f"{record['directory']}/"] = b""


def with_content(revision: int, change: str, path: str, content: bytes) -> Record:
    """Returns the record of a change that has content."""
    try:
        return {"revision": revision, change: path, "text": content.decode()}
    except UnicodeDecodeError:
        return {"revision": revision, change: path, "base64": base64.b64encode(content).decode()}


def snapshot(files: Files, revision: int) -> bytes:
    """Returns the beginning of a segment: all files as they are."""
    records: list[Record] = [
        {"revision": revision, "directory": path[:-1]}
        if path.endswith("/")
        else with_content(revision, "write", path, content)
        for path, content in sorted(files.items())
    ]
    return b"".join(map(line, [*records, {"revision": revision, "snapshot": True}]))


def line(record: Record) -> bytes:
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

"""Records what was done to a pod's containers from outside, in order: JSON lines in a file per pod.

After a restart of the kubelet the containers' programs run again with it, with the same result.
"""

import base64
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from kubeskew.kubelet.containers.execution.files import File, Tree
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

Entry = dict[str, Any]

VOLUME, FILES, INPUT, SIGNAL, OUTPUT = "volume", "files", "input", "signal", "output"


class Journal:
    """The journal in the file at `path`, which exists once something was written."""

    def __init__(self, path: Path, files: StateFiles = UNJOURNALLED) -> None:
        self._path = path
        self._files = files

    def entries(self) -> list[Entry]:
        """Returns all entries; a last line that was cut off is left out."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [orjson.loads(line) for line in lines if line.endswith(b"\n")]

    def append(self, entry: Entry) -> None:
        self._files.append(self._path, orjson.dumps(entry) + b"\n")

    def replace(self, entries: list[Entry]) -> None:
        """Replaces the journal by these entries."""
        if entries:
            self._files.write(self._path, b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
        else:
            self.remove()

    def remove(self) -> None:
        self._files.remove(self._path)


def stored_file(file: File | None) -> Entry | None:
    """Returns a file as JSON; None for an absent one."""
    if file is None:
        return None
    data = None if file.data is None else base64.b64encode(file.data).decode()
    return {"data": data, "mode": file.mode, "changed": file.changed, "target": file.target}


def apply_files(tree: Tree, files: dict[str, Entry | None]) -> None:
    """Restores stored files in a tree."""
    for path, stored in files.items():
        if stored is None:
            tree.entries.pop(path, None)
        else:
            data = None if stored["data"] is None else base64.b64decode(stored["data"])
            tree.put(path, File(data, stored["mode"], stored["changed"], stored["target"]))


def time_of(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry["time"])

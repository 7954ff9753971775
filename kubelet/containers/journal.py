"""A journal: JSON lines in a file, in the order in which they were added."""

from pathlib import Path
from typing import Any

import orjson

from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

Entry = dict[str, Any]


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

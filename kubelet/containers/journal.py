"""A journal: JSON lines in a file, in the order in which they were added."""

from collections.abc import Iterator
from contextlib import suppress
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
        self._continued = False  # from a whole line on

    def entries(self) -> list[Entry]:
        """Returns all entries; lines that the end of a process or of the machine has cut off are left
        out.
        """
        lines = (self._files.read(self._path) or b"").splitlines(keepends=True)
        return [entry for line in lines if line.endswith(b"\n") for entry in _parsed(line)]

    def append(self, entry: Entry) -> None:
        line = orjson.dumps(entry) + b"\n"
        if not self._continued:
            before = self._files.read(self._path)
            if before and not before.endswith(b"\n"):  # its writer was killed
                line = b"\n" + line
        self._continued = False  # a failure may leave a part of the line
        self._files.append(self._path, line)
        self._continued = True


def _parsed(line: bytes) -> Iterator[Entry]:
    with suppress(orjson.JSONDecodeError):
        yield orjson.loads(line)

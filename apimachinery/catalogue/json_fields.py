"""The order in which Go writes the JSON fields of a struct, and the embedded structs that they belong to.

Data of 1.31 … 1.36, made by hack/catalogue/json_fields.py; older releases have the fields of its first, newer
ones those of its last, imported ones a document of their own.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from kubeskew.apimachinery.versions import entry

FILE = Path(__file__).parents[1] / "data" / "json_fields.json"
_EMBEDDED = "="


class JsonFields:
    """Those of one release. `named`: errors of the JSON decoder name embedded structs."""

    def __init__(self, minor: int, own: Mapping[str, Any] | None = None) -> None:
        """`own` is the document of an imported release."""
        self.named = bool(
            own.get("embedded") if own else entry({0: 0, **dict(_document()["embedded"])}, minor)
        )
        self._own = own
        self._minor = minor

    def of(self, definition: str) -> Mapping[str, tuple[str, ...]]:
        """Maps the fields of a definition, in their order, to the embedded structs that they are in."""
        return dict(self._fields(definition, ()))

    def _fields(self, definition: str, within: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name in self._names(definition).split():
            if name[0] == _EMBEDDED:
                yield from self._fields(name[1:], (*within, name.rpartition(".")[2]))
            else:
                yield name, within

    def _names(self, definition: str) -> str:
        if self._own is not None:
            return str(self._own["structs"].get(definition, ""))
        steps: list[tuple[int, str | None]] | None = _document()["structs"].get(definition)
        return (entry({0: steps[0][1], **dict(steps)}, self._minor) or "") if steps else ""


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(FILE.read_bytes())
    return document

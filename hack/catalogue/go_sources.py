"""Struct types as Go sources declare them: package, name, fields with their tags.

The lines of gofmt are read, no more: `type NAME struct {` in the first column, a field a line, `}` in the
first column. That is how all of Kubernetes' API types are written.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_IMPORT = re.compile(r'^(?:import)?\s+(?:(\w+)\s+)?"([^"]+)"$', re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^(?:type |\t)(\w+) (?:= )?((?:\w+\.)?[A-Z]\w*)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:(\w+) +)?([\w.\[\]*]+) +`([^`]*)`", re.MULTILINE)


class GoField(NamedTuple):
    """A field as declared. `type` is the full name of its type, or of what a list or map of it holds."""

    name: str
    tag: str
    embedded: bool
    type: str


class Sources:
    """The Go files below a directory whose folders are named as their packages are: `k8s.io/api/core/v1`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def structs(self) -> Iterator[tuple[str, list[GoField]]]:
        """Pairs each struct's full name with its tagged fields."""
        for package, text, imports in self._files():
            for name, body in _STRUCT.findall(text):
                yield (
                    f"{package}.{name}",
                    [_field(*found, package, imports) for found in _FIELD.findall(body)],
                )

    def aliases(self) -> Iterator[tuple[str, str]]:
        """Pairs the full name of each type that is declared as another with that of the other."""
        for package, text, imports in self._files():
            for name, element in _ALIAS.findall(text):
                yield f"{package}.{name}", _full_name(element, package, imports)

    def _files(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        for path in sorted(self._directory.rglob("*.go")):
            text = path.read_text("utf-8")
            imports = {alias or name.rpartition("/")[2]: name for alias, name in _IMPORT.findall(text)}
            yield path.parent.relative_to(self._directory).as_posix(), text, imports


def _full_name(element: str, package: str, imports: dict[str, str]) -> str:
    prefix, _, simple = element.rpartition(".")
    return f"{imports.get(prefix, prefix) if prefix else package}.{simple}"


def _field(name: str, kind: str, tag: str, package: str, imports: dict[str, str]) -> GoField:
    element = kind.lstrip("[]*")
    return GoField(name or element.rpartition(".")[2], tag, not name, _full_name(element, package, imports))

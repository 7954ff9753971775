"""Reads YAML as people mean it: a key is a text, and none is given twice.

YAML 1.1 reads the keys `on`, `off`, `yes` and `no` as booleans, and of two keys of one name the last silently
wins; both are refused here with the line.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from kubeskew.conformance.errors import ScenarioError

_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_KINDS = {"bool": "boolean", "int": "number", "float": "number", "null": "null", "timestamp": "date"}


class KeyTypeError(yaml.YAMLError):
    """A key that is no text, or is there twice; the message says in which line."""


class _CheckedKeys(yaml.constructor.SafeConstructor):
    """The safe loader's way from nodes to values, which checks the keys of every mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.tag not in (_TEXT, _MERGE):
                text = getattr(key, "value", "")
                shown = text if isinstance(text, str) else "[…]"
                kind = _KINDS.get(key.tag.rpartition(":")[2], "value")
                raise KeyTypeError(f'line {line}: YAML reads the key {shown} as a {kind}; write "{shown}"')
            if key.value in seen and key.tag == _TEXT:
                raise KeyTypeError(f"line {line}: the key {key.value} is there twice in one mapping")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Loader(_CheckedKeys, yaml.SafeLoader):
    """The safe loader with checked keys."""


class _FastLoader(_CheckedKeys, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same by libyaml, where there is one: in a tenth of the time."""


def documents(text: str, source: str) -> list[Any]:
    """The documents of a text, without the empty ones. Raises ScenarioError that names `source`."""
    try:
        with suppress(yaml.YAMLError):  # libyaml is less sure of the line
            return _documents(text, _FastLoader)
        return _documents(text, _Loader)
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: {_told(error)}") from error


def _documents(text: str, loader: Any) -> list[Any]:
    # both are loaders that make nothing but plain values
    return [value for value in yaml.load_all(text, loader) if value is not None]


def read(path: Path) -> list[Any]:
    """The documents of a file. Raises ScenarioError with the file, and the line where something is wrong."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"cannot read {path}: it is not UTF-8") from error
    return documents(text, str(path))


def _told(error: yaml.YAMLError) -> str:
    """One line that says what is wrong and where."""
    if isinstance(error, KeyTypeError):
        return str(error)
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}: " if mark else ""
    return f"{line}not YAML: {getattr(error, 'problem', None) or error}"

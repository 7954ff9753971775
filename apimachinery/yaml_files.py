"""Reads YAML files as `yaml.safe_load` does, with libyaml where it is installed, in a tenth of the time.

`load_checked` reads files of our own as people mean them: YAML 1.1 reads the keys `on`, `off`, `yes` and `no`
as booleans, and of two keys of one name the last silently wins; both are refused with the line.

A mistake is found by the values alone. `with_line` then reads the text once more, for the line of the place
that the message begins with, so that files without mistakes cost nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_KINDS = {"bool": "boolean", "int": "number", "float": "number", "null": "null", "timestamp": "date"}


def load(text: str | bytes) -> Any:
    """The one document of a text. Raises yaml.YAMLError, also if there are several."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - both loaders are safe ones


def load_all(text: str) -> Iterator[Any]:
    """Yields the documents of a text. Raises yaml.YAMLError as they are read."""
    return iter(yaml.load_all(text, Loader=_LOADER))


class KeyTypeError(yaml.YAMLError):
    """A key that is no text, or is there twice."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class _CheckingLoader(_LOADER):  # type: ignore[misc]  # libyaml's or Python's: known at import only
    """The same loader, which checks the keys of every mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.tag not in (_TEXT, _MERGE):
                shown = key.value if isinstance(key.value, str) else "[…]"
                kind = _KINDS.get(key.tag.rpartition(":")[2], "value")
                raise KeyTypeError(line, f'YAML reads the key {shown} as a {kind}; write "{shown}"')
            if key.value in seen and key.tag == _TEXT:
                raise KeyTypeError(line, f"the key {key.value} is there twice in one mapping")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_checked(text: str) -> list[Any]:
    """The documents of a text. Raises yaml.YAMLError, also for a key that is no text or is there twice."""
    return list(yaml.load_all(text, Loader=_CheckingLoader))


_BAD_START = "cannot start any token"  # a tab in the indentation, or a text that begins with @ or `


def explain(error: yaml.YAMLError, source: str) -> str:
    """One line, which begins with the file and the line of the error."""
    if isinstance(error, KeyTypeError):
        return f"{source}:{error.line}: {error.problem}"
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    problem = " ".join((getattr(error, "problem", None) or str(error)).split())
    tab = "; indent with spaces, not tabs, and quote texts with @ or `" if _BAD_START in problem else ""
    return f"{source}{line}: not YAML: {problem}{tab}"


def compose(text: str) -> list[yaml.Node]:
    """The documents of a text as nodes with lines, without empty documents. Raises yaml.YAMLError."""
    nodes = yaml.compose_all(text, Loader=_LOADER)
    return [node for node in nodes if node.tag != _NULL]


def child(node: yaml.Node, key: str) -> yaml.Node | None:
    """The value of a key of a mapping."""
    return next((value for name, value in _members(node) if name.value == key), None)


def with_line(message: str, source: str, documents: Iterable[yaml.Node], key: str = "") -> str:
    """`SOURCE: nodes[0].count: …` becomes `SOURCE:12: nodes[0].count: …`, or stays if no document has it.

    The line is that of the last key or item of the place that the document has; or that of `key` there, for
    a message about one key of the mapping at the place. The document that has most of the place counts.
    """
    before, place = message[: len(source) + 2], message[len(source) + 2 :]
    if before != f"{source}: ":
        return message
    depth, line = max((_find(document, place, key) for document in documents), default=(0, 0), key=_depth)
    return f"{source}:{line}: {place}" if depth else message


def _depth(found: tuple[int, int]) -> int:
    return found[0]


def _find(node: yaml.Node, place: str, key: str) -> tuple[int, int]:
    """Counts the keys and items of the place that there are in the node; with the line of the last one."""
    depth = line = 0
    while found := _step(node, place):
        node, mark, place = found
        depth, line = depth + 1, mark.line + 1
    own = next((name for name, _ in _members(node) if name.value == key), None) if key else None
    return (depth + 1, own.start_mark.line + 1) if own is not None else (depth, line)


def _step(node: yaml.Node, place: str) -> tuple[yaml.Node, Any, str] | None:
    """The member that the place begins with, its mark, and the rest of the place."""
    if isinstance(node, yaml.SequenceNode):
        index, bracket, rest = place.removeprefix("[").partition("]")
        if place.startswith("[") and bracket and index.isdigit() and int(index) < len(node.value):
            item = node.value[int(index)]
            return item, item.start_mark, _without_separator(rest)
        return None
    fitting = [
        (name, value)
        for name, value in _members(node)
        if isinstance(name.value, str) and place.startswith(tuple(f"{name.value}{end}" for end in ".[:"))
    ]
    if not fitting:
        return None
    name, value = max(fitting, key=lambda pair: len(pair[0].value))
    return value, name.start_mark, _without_separator(place[len(name.value) :])


def _without_separator(place: str) -> str:
    return place.removeprefix(": ") if place.startswith(":") else place.removeprefix(".")


def _members(node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping; its own are before those that it merges."""
    if not isinstance(node, yaml.MappingNode):
        return []
    merged = [value for key, value in node.value if key.tag == _MERGE]
    sources = [each for value in merged for each in (value.value if _is_list(value) else [value])]
    own = [(key, value) for key, value in node.value if key.tag != _MERGE]
    return own + [pair for each in sources for pair in _members(each)]


def _is_list(node: yaml.Node) -> bool:
    return isinstance(node, yaml.SequenceNode)

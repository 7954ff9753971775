"""Paths and sets of fields, in the form of FieldsV1.

`f:name` a field, `k:{"name":"a"}` the element of a list by its keys, `v:"x"` the element of a set by its
value, `i:0` by its position. Equal elements have equal text: keys sorted, JSON compact, whole numbers as
integers.

A set is a tree. `members` are the elements owned at this level, `children` the sets below an element; an
element may be either or both. Sets are not changed once they are in use; operations give new ones and may
share parts.

Sources: sigs.k8s.io/structured-merge-diff/v6/fieldpath (serialize-pe.go, element.go);
sigs.k8s.io/structured-merge-diff/v6/fieldpath (set.go, serialize.go).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson

from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.memo import remembered
from kubeskew.apiserver.decoding import go_json

Path = tuple[str, ...]

_KINDS = {"f": 0, "k": 1, "v": 2, "i": 3}


def field(name: str) -> str:
    return f"f:{name}"


def keyed(keys: Mapping[str, Any]) -> str:
    parts = [part for name in sorted(keys) for part in (name, _number(keys[name]))]
    if any(isinstance(part, str) and len(part) > _LONG for part in parts):
        return _keyed(*parts)
    try:
        return _remembered(*parts)
    except TypeError:  # a list or a map for a key: no item of a valid object has one
        return _keyed(*parts)


_LONG = 1024  # characters: what is longer is not kept


def _keyed(*parts: Any) -> str:
    return "k:" + _json(dict(zip(parts[::2], parts[1::2], strict=True)))


_remembered = lru_cache(maxsize=8192, typed=True)(_keyed)  # the same few come again and again


def valued(value: Any) -> str:
    return "v:" + _json(_number(value))


def indexed(position: int) -> str:
    return f"i:{position}"


@remembered(8192)
def canonical(text: str) -> str | None:
    """Equal elements come back as equal texts; None for a kind not known here. Raises ValueError."""
    if len(text) < 2:
        raise ValueError("key must be 2 characters long:")
    if text[1] != ":":
        raise ValueError(f"missing colon: {text}")
    kind, content = text[0], text[2:]
    if kind == "f":
        return text
    if kind == "i":
        return indexed(int(content))
    if kind == "v":
        return valued(orjson.loads(content))
    if kind != "k":
        return None
    keys = orjson.loads(content)
    if not isinstance(keys, dict):
        raise ValueError(f"not an object: {content}")
    return keyed(keys)


@remembered(8192)
def sort_key(element: str) -> tuple[Any, ...]:
    """Fields come first, then keys, then values, then positions."""
    kind, content = _KINDS[element[0]], element[2:]
    if kind == 0:
        return kind, content
    if kind == 3:
        return kind, int(content)
    value = orjson.loads(content)
    if kind == 2:
        return kind, _rank(value)
    return kind, tuple((name, _rank(item)) for name, item in value.items())


def in_order(elements: Iterable[str]) -> list[str]:
    found = sorted(elements)
    if found and found[-1][0] != "f":  # the letters of the other kinds come later in the alphabet
        found.sort(key=sort_key)
    return found


def show(path: Iterable[str]) -> str:
    """Messages print paths in this form: `.spec.containers[name="c"].image`."""
    return "".join(map(show_element, path))


def show_element(element: str) -> str:
    kind, content = element[0], element[2:]
    if kind == "f":
        return f".{content}"
    if kind == "i":
        return f"[{content}]"
    value = orjson.loads(content)
    if kind == "v":
        return f"[={_show(value)}]"
    return f"[{','.join(f'{name}={_show(item)}' for name, item in value.items())}]"


def _json(value: Any) -> str:
    return go_json.escaped(orjson.dumps(value).decode())


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e18 else value


def _rank(value: Any) -> tuple[Any, ...]:
    """Types rank in this order: numbers, texts, booleans, lists, maps, null."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return (5, 0) if value is None else (3 + isinstance(value, dict), orjson.dumps(value))


def _show(value: Any) -> str:
    """Text is in quotes and maps have nothing around them, as Go's value.ToString prints them."""
    if isinstance(value, dict):
        return "".join(f"{name}={_show(item)}" for name, item in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_show, value))}]"
    return quoted(value) if isinstance(value, str) else orjson.dumps(value).decode()


class FieldSet:
    __slots__ = ("children", "members")

    def __init__(self, members: Iterable[str] = (), children: "dict[str, FieldSet] | None" = None) -> None:
        self.members = set(members)
        self.children = {} if children is None else children

    @classmethod
    def of(cls, *paths: Iterable[str]) -> "FieldSet":
        """Paths are of element texts (`f:spec`)."""
        found = cls()
        for path in paths:
            found.insert(tuple(path))
        return found

    @classmethod
    def of_fields(cls, paths: Iterable[Iterable[str]]) -> "FieldSet":
        """Paths are of plain field names (`("spec", "replicas")`)."""
        return cls.of(*(map(field, path) for path in paths))

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any] | None) -> "FieldSet":
        """Elements of unknown kinds are left out; raises ValueError."""
        return _read(fields or {})[0] or cls()

    def to_fields(self) -> dict[str, Any]:
        return self.emit(owned=False)

    def emit(self, *, owned: bool) -> dict[str, Any]:
        """With `owned`, the element above is a member itself, and marked by `.`."""
        fields: dict[str, Any] = {".": {}} if owned and (self.members or self.children) else {}
        children, members = self.children, self.members
        if not children:
            for element in in_order(members):
                fields[element] = {}
            return fields
        for element in in_order(members | children.keys()):
            child = children.get(element)
            fields[element] = {} if child is None else child.emit(owned=element in members)
        return fields

    def insert(self, path: Path) -> None:
        """Only a set that is still being built may be changed."""
        here = self
        for element in path[:-1]:
            here = here.children.setdefault(element, FieldSet())
        if path:
            here.members.add(path[-1])

    def attach(self, element: str, child: "FieldSet") -> None:
        """Only a set that is still being built may be changed; an empty `child` is left out."""
        if not child.is_empty():
            there = self.children.get(element)
            self.children[element] = child if there is None else there.union(child)

    def has(self, path: Path) -> bool:
        here: FieldSet | None = self
        for element in path[:-1]:
            here = here.children.get(element) if here is not None else None
        return here is not None and bool(path) and path[-1] in here.members

    def below(self, element: str) -> "FieldSet":
        return self.children.get(element) or EMPTY

    def is_empty(self) -> bool:
        return not self.members and all(child.is_empty() for child in self.children.values())

    def union(self, other: "FieldSet") -> "FieldSet":
        if not other.members and not other.children:
            return self
        if not self.members and not self.children:
            return other
        children = dict(self.children)
        for element, theirs in other.children.items():
            ours = children.get(element)
            children[element] = theirs if ours is None else ours.union(theirs)
        return FieldSet(self.members | other.members, children)

    def intersection(self, other: "FieldSet") -> "FieldSet":
        found = FieldSet(self.members & other.members)
        for element, ours in self.children.items():
            theirs = other.children.get(element)
            if theirs is not None:
                found.attach(element, ours.intersection(theirs))
        return found

    def difference(self, other: "FieldSet") -> "FieldSet":
        """A path stays even if its parent is in `other`."""
        if not other.members and not other.children:
            return self
        found = FieldSet(self.members - other.members)
        for element, ours in self.children.items():
            theirs = other.children.get(element)
            found.attach(element, ours if theirs is None else ours.difference(theirs))
        return found

    def recursive_difference(self, other: "FieldSet") -> "FieldSet":
        """Paths below one in `other` are left out, too."""
        if not other.members and not other.children:
            return self
        found = FieldSet(self.members - other.members)
        for element, ours in self.children.items():
            if element not in other.members:
                theirs = other.children.get(element)
                found.attach(element, ours if theirs is None else ours.recursive_difference(theirs))
        return found

    def paths(self) -> Iterator[Path]:
        """Paths of a level come before those below it."""
        for element in in_order(self.members):
            yield (element,)
        for element in in_order(self.children):
            for rest in self.children[element].paths():
                yield (element, *rest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and set(self.paths()) == set(other.paths())

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(map(show, self.paths()))})"


EMPTY = FieldSet()


def _read(fields: Mapping[str, Any]) -> tuple[FieldSet | None, bool]:
    """The second value is True if the element is a member itself."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"not an object: {fields!r}")
    owned = False
    found: FieldSet | None = None
    for text, below in fields.items():
        if text == ".":
            owned = True
            continue
        element = text if text[:2] == "f:" else canonical(text)
        if element is None:
            continue
        child, is_member = _read(below) if below else (None, True)
        if found is None:
            found = FieldSet()
        if is_member:
            found.members.add(element)
        if child is not None:
            found.attach(element, child)
    return found, owned or found is None

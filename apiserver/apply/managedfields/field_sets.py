"""Holds sets of fields, as each manager owns one.

A set is a tree. `members` are the elements owned at this level, `children` the sets below an element; an
element may be either or both. Sets are not changed once they are in use; operations give new ones and may
share parts.

Source: sigs.k8s.io/structured-merge-diff/v6/fieldpath (set.go, serialize.go).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeskew.apiserver.apply.managedfields import path_elements
from kubeskew.apiserver.apply.managedfields.path_elements import Path


class FieldSet:
    """Holds a set of field paths."""

    __slots__ = ("children", "members")

    def __init__(self, members: Iterable[str] = (), children: "dict[str, FieldSet] | None" = None) -> None:
        self.members = set(members)
        self.children = {} if children is None else children

    @classmethod
    def of(cls, *paths: Iterable[str]) -> "FieldSet":
        """Returns the set of these paths, each of element texts (`f:spec`)."""
        found = cls()
        for path in paths:
            found.insert(tuple(path))
        return found

    @classmethod
    def of_fields(cls, paths: Iterable[Iterable[str]]) -> "FieldSet":
        """Returns the set of paths of plain field names (`("spec", "replicas")`)."""
        return cls.of(*(map(path_elements.field, path) for path in paths))

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any] | None) -> "FieldSet":
        """Makes a set of FieldsV1; elements of unknown kinds are left out. Raises ValueError."""
        return _read(fields or {})[0] or cls()

    def to_fields(self) -> dict[str, Any]:
        """Returns the set as FieldsV1, in its order."""
        return self.emit(owned=False)

    def emit(self, *, owned: bool) -> dict[str, Any]:
        """Returns the same of the set below an element that is (`owned`) a member itself."""
        fields: dict[str, Any] = {".": {}} if owned and (self.members or self.children) else {}
        children, members = self.children, self.members
        if not children:
            for element in path_elements.in_order(members):
                fields[element] = {}
            return fields
        for element in path_elements.in_order(members | children.keys()):
            child = children.get(element)
            fields[element] = {} if child is None else child.emit(owned=element in members)
        return fields

    def insert(self, path: Path) -> None:
        """Adds a path while the set is being built."""
        here = self
        for element in path[:-1]:
            here = here.children.setdefault(element, FieldSet())
        if path:
            here.members.add(path[-1])

    def attach(self, element: str, child: "FieldSet") -> None:
        """Puts `child` below `element` while the set is being built, unless it is empty."""
        if not child.is_empty():
            there = self.children.get(element)
            self.children[element] = child if there is None else there.union(child)

    def has(self, path: Path) -> bool:
        """Decides whether the set holds this very path."""
        here: FieldSet | None = self
        for element in path[:-1]:
            here = here.children.get(element) if here is not None else None
        return here is not None and bool(path) and path[-1] in here.members

    def below(self, element: str) -> "FieldSet":
        """Returns the part of the set below `element`."""
        return self.children.get(element) or EMPTY

    def is_empty(self) -> bool:
        return not self.members and all(child.is_empty() for child in self.children.values())

    def union(self, other: "FieldSet") -> "FieldSet":
        """Returns the paths that are in either set."""
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
        """Returns the paths that are in both sets."""
        found = FieldSet(self.members & other.members)
        for element, ours in self.children.items():
            theirs = other.children.get(element)
            if theirs is not None:
                found.attach(element, ours.intersection(theirs))
        return found

    def difference(self, other: "FieldSet") -> "FieldSet":
        """Returns the paths that are not in `other`; a path stays though its parent is there."""
        if not other.members and not other.children:
            return self
        found = FieldSet(self.members - other.members)
        for element, ours in self.children.items():
            theirs = other.children.get(element)
            found.attach(element, ours if theirs is None else ours.difference(theirs))
        return found

    def recursive_difference(self, other: "FieldSet") -> "FieldSet":
        """Returns the paths that are neither in `other` nor below a path that is there."""
        if not other.members and not other.children:
            return self
        found = FieldSet(self.members - other.members)
        for element, ours in self.children.items():
            if element not in other.members:
                theirs = other.children.get(element)
                found.attach(element, ours if theirs is None else ours.recursive_difference(theirs))
        return found

    def paths(self) -> Iterator[Path]:
        """Yields every path, those of a level before those below it."""
        for element in path_elements.in_order(self.members):
            yield (element,)
        for element in path_elements.in_order(self.children):
            for rest in self.children[element].paths():
                yield (element, *rest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and set(self.paths()) == set(other.paths())

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(map(path_elements.show, self.paths()))})"


EMPTY = FieldSet()


def _read(fields: Mapping[str, Any]) -> tuple[FieldSet | None, bool]:
    """Returns the set below an element, and whether the element is a member itself."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"not an object: {fields!r}")
    owned = False
    found: FieldSet | None = None
    for text, below in fields.items():
        if text == ".":
            owned = True
            continue
        element = text if text[:2] == "f:" else path_elements.canonical(text)
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

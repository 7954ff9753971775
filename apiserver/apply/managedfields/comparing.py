"""Compares two values of one schema, and returns the sets of fields that differ.

Unlike the set a configuration owns, an added or removed struct counts itself beside its leaves: that is where
the `.` in the entries of updaters comes from.

Source: sigs.k8s.io/structured-merge-diff/v6/typed/compare.go.
"""

from dataclasses import dataclass, field
from typing import Any

from orjson import dumps

from kubeskew.apimachinery.golang.raw_extensions import RawObject
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apply.managedfields import atoms, path_elements
from kubeskew.apiserver.apply.managedfields.atoms import ABSENT, Shape
from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet


@dataclass(slots=True)
class Comparison:
    """Holds three sets that have no path in common."""

    removed: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    added: FieldSet = field(default_factory=FieldSet)

    def excluding(self, fields: FieldSet | None) -> "Comparison":
        """Returns the comparison without what is in `fields` or below it."""
        if fields is None or fields.is_empty():
            return self
        return Comparison(
            self.removed.recursive_difference(fields),
            self.modified.recursive_difference(fields),
            self.added.recursive_difference(fields),
        )


def compare(before: dict[str, Any], after: dict[str, Any], schema: Schema) -> Comparison:
    """Returns the difference between two objects."""
    found = Comparison()
    _compare_fields(before, after, schema, found)
    return found


def _compare_fields(before: dict[str, Any], after: dict[str, Any], schema: Schema, into: Comparison) -> None:
    for name, item in before.items():
        there = atoms.field_schema(schema, name) or atoms.ANY
        _compare(item, after.get(name, ABSENT), there, path_elements.field(name), into)
    for name, item in after.items():
        if name not in before:
            there = atoms.field_schema(schema, name) or atoms.ANY
            _mark(item, there, path_elements.field(name), into.added)


def _compare(before: Any, after: Any, schema: Schema, element: str, into: Comparison) -> None:
    if after is ABSENT:
        _mark(before, schema, element, into.removed)
        return
    if before is after or (type(before) is type(after) and before == after and dumps(before) == dumps(after)):
        return
    shape, other = atoms.shape_of(schema, before), atoms.shape_of(schema, after)
    _compare_as(shape, before, after, schema, element, into)
    if other is not shape:
        _compare_as(other, before, after, schema, element, into)


def _compare_as(
    shape: Shape, before: Any, after: Any, schema: Schema, element: str, into: Comparison
) -> None:
    """Compares values that are both there and differ."""
    below = Comparison()
    if shape is Shape.MAP:
        ours, theirs = _map(before), _map(after)
        if not atoms.is_atomic(schema) and (ours or theirs):
            _compare_fields(ours, theirs, schema, below)
            _attach(below, element, into)
            return
    elif shape is Shape.LIST:
        items, others = _list(before), _list(after)
        if not atoms.is_atomic_list(schema) and (items or others):
            _compare_items(items, others, schema, below)
            _attach(below, element, into)
            return
    if not _same(before, after):
        into.modified.members.add(element)


def _same(before: Any, after: Any) -> bool:
    """Decides whether values are equal; true is not 1.

    How raw fields are written counts in a list that is compared as a whole (listReflect.EqualsUsing), not
    for themselves.
    """
    if isinstance(before, RawObject):
        before = dict(before)
    if before != after:
        return False
    if isinstance(before, bool | int):
        return isinstance(before, bool) is isinstance(after, bool)
    if isinstance(before, dict):
        return all(_same(item, after[name]) for name, item in before.items())
    return not isinstance(before, list) or all(map(_same, before, after))


def _attach(below: Comparison, element: str, into: Comparison) -> None:
    into.removed.attach(element, below.removed)
    into.modified.attach(element, below.modified)
    into.added.attach(element, below.added)


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _by_element(items: list[Any], schema: Schema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(atoms.item_element(schema, item), []).append(item)
    return found


def _compare_items(before: list[Any], after: list[Any], schema: Schema, into: Comparison) -> None:
    """Compares items of the same key; several of one key count as one, all or nothing."""
    ours, theirs = _by_element(before, schema), _by_element(after, schema)
    item_schema = atoms.item_schema(schema)
    for element in ours | theirs:
        left, right = ours.get(element, []), theirs.get(element, [])
        if len(left) > 1 and len(right) > 1:
            if left != right:
                into.modified.members.add(element)
        elif len(left) > 1:
            if right:
                _mark(right[0], item_schema, element, into.added)
            into.removed.members.add(element)
        elif len(right) > 1:
            if left:
                _mark(left[0], item_schema, element, into.removed)
            into.added.members.add(element)
        elif left:
            _compare(left[0], right[0] if right else ABSENT, item_schema, element, into)
        else:
            _mark(right[0], item_schema, element, into.added)


def _mark(value: Any, schema: Schema, element: str, into: FieldSet) -> None:
    """Puts `element`, and all that `value` sets below it, into a set."""
    into.members.add(element)
    if not value or not isinstance(value, dict | list):
        return
    shape = atoms.shape_of(schema, value)
    below = FieldSet()
    if shape is Shape.MAP:
        if isinstance(value, dict) and not atoms.is_atomic(schema):
            for name, item in value.items():
                there = atoms.field_schema(schema, name) or atoms.ANY
                _mark(item, there, path_elements.field(name), below)
    elif isinstance(value, list) and not atoms.is_atomic_list(schema):
        for item_element, items in _by_element(value, schema).items():
            if len(items) == 1:
                _mark(items[0], atoms.item_schema(schema), item_element, below)
            else:
                below.members.add(item_element)
    if below.members:
        into.children[element] = below

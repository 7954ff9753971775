"""The one entry of a new object that nobody managed before: everything it sets belongs to its creator.

What comparing it with nothing gives, without the sets in between: creates are what a server does most.
"""

from typing import Any

from apimachinery.managedfields import atoms, limits, path_elements
from apimachinery.managedfields.atoms import Shape
from apimachinery.managedfields.field_sets import FieldSet
from apimachinery.schema import Schema

Fields = dict[str, Any]


def serves(reset: FieldSet | None) -> bool:
    """Whether `reset` names top-level fields at most."""
    return reset is None or not reset.children


def fields_of(obj: dict[str, Any], schema: Schema, reset: FieldSet | None) -> Fields:
    """FieldsV1 of all that `obj` sets, without `reset` and what nobody owns. Raises ItemError."""
    found: Fields = {}
    left_out = reset.members if reset is not None else frozenset()
    for name in sorted(obj):
        element = path_elements.field(name)
        below = _below(obj[name], atoms.field_schema(schema, name) or atoms.ANY)
        if element in left_out:
            continue
        if element in limits.UNOWNED.members:
            nobodys = {".", *limits.UNOWNED.below(element).members}
            below = {text: part for text, part in below.items() if text not in nobodys}
            if not below:
                continue
        found[element] = below
    return found


def _below(value: Any, schema: Schema) -> Fields:
    """What follows an element that is owned itself."""
    if not value or not isinstance(value, dict | list):
        return {}
    if isinstance(value, list):
        return {} if atoms.is_atomic_list(schema) else _items(value, schema)
    if atoms.shape_of(schema, value) is not Shape.MAP or atoms.is_atomic(schema):
        return {}
    found: Fields = {".": {}}
    for name in sorted(value):
        item = value[name]
        deep = item and isinstance(item, dict | list)
        there = (atoms.field_schema(schema, name) or atoms.ANY) if deep else atoms.ANY
        found[path_elements.field(name)] = _below(item, there) if deep else {}
    return found


def _items(items: list[Any], schema: Schema) -> Fields:
    """The items of a list by their elements; several of one key are owned as one."""
    by_element: dict[str, list[Any]] = {}
    for item in items:
        by_element.setdefault(atoms.item_element(schema, item), []).append(item)
    item_schema = atoms.item_schema(schema)
    elements = path_elements.in_order(by_element) if len(by_element) > 1 else by_element
    found: Fields = {".": {}}
    for element in elements:
        same = by_element[element]
        found[element] = _below(same[0], item_schema) if len(same) == 1 else {}
    return found

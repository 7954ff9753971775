"""Checks values against their schema, lists the fields they set, and removes fields.

Source: sigs.k8s.io/structured-merge-diff/v6/typed (validate.go, tofieldset.go, remove.go,
reconcile_schema.go).
"""

from collections import Counter
from typing import Any

from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.apply.managedfields import atoms, path_elements
from kubeskew.apiserver.apply.managedfields.atoms import ItemError, Shape, TypedError
from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet
from kubeskew.apiserver.apply.patching.values import show

Problems = list[tuple[str, str]]


def validate(value: Any, schema: Schema, *, allow_duplicates: bool = False) -> None:
    """Raises TypedError if `value` does not fit."""
    problems: Problems = []
    _validate(value, schema, "", problems, allow_duplicates)
    if problems:
        raise TypedError(problems)


def _validate(value: Any, schema: Schema, path: str, problems: Problems, duplicates: bool) -> None:
    shape = atoms.shape_of(schema, value)
    if shape is Shape.SCALAR:
        problem = atoms.scalar_problem(schema, value)
        if problem:
            problems.append((path, problem))
    elif value is None:
        return
    elif shape is Shape.MAP:
        if isinstance(value, dict):
            _validate_map(value, schema, path, problems, duplicates)
        else:
            problems.append((path, f"expected map, got &{{{show(value)}}}"))
    elif isinstance(value, list):
        _validate_list(value, schema, path, problems, duplicates)
    else:
        problems.append((path, f"expected list, got &{{{show(value)}}}"))


def _validate_map(
    value: dict[str, Any], schema: Schema, path: str, problems: Problems, duplicates: bool
) -> None:
    for name, item in value.items():
        found = atoms.field_schema(schema, name)
        if found is None:
            problems.append((f"{path}.{name}", "field not declared in schema"))
            return
        _validate(item, found, f"{path}.{name}", problems, duplicates)


def _validate_list(value: list[Any], schema: Schema, path: str, problems: Problems, duplicates: bool) -> None:
    keyed = schema.kind is Kind.LIST and schema.list_type != "atomic"
    seen: set[str] = set()
    for position, item in enumerate(value):
        element = path_elements.indexed(position)
        if keyed:
            try:
                element = atoms.item_element(schema, item)
            except ItemError as error:
                problems.append((path, f"element {position}: {error}"))
                return
            shown = path_elements.show_element(element)
            if element in seen and not duplicates:
                problems.append((path, f"duplicate entries for key {shown}"))
            seen.add(element)
        below = path + path_elements.show_element(element)
        _validate(item, atoms.item_schema(schema), below, problems, duplicates)


# --- the fields a value sets ----------------------------------------------------------------------------


def to_field_set(value: Any, schema: Schema) -> FieldSet:
    """Returns the fields that a configuration sets: leaves, free keys, items of lists; not the structs above
    them.
    """
    found = FieldSet()
    if isinstance(value, dict):
        _own_fields(value, schema, found)
    return found


def _own(value: Any, schema: Schema, element: str, into: FieldSet) -> None:
    shape = atoms.shape_of(schema, value)
    if shape is Shape.SCALAR:
        into.members.add(element)
    elif shape is Shape.MAP:
        if atoms.is_atomic(schema):
            into.members.add(element)
        elif isinstance(value, dict):
            below = FieldSet()
            _own_fields(value, schema, below)
            into.attach(element, below)
    elif atoms.is_atomic_list(schema):
        into.members.add(element)
    elif isinstance(value, list):
        below = FieldSet()
        _own_items(value, schema, below)
        into.attach(element, below)


def _own_fields(value: dict[str, Any], schema: Schema, into: FieldSet) -> None:
    for name, item in value.items():
        element = path_elements.field(name)
        _own(item, atoms.field_schema(schema, name) or atoms.ANY, element, into)
        if item is None or item == {} or not atoms.is_named(schema, name):
            into.members.add(element)


def _own_items(value: list[Any], schema: Schema, into: FieldSet) -> None:
    elements = [atoms.item_element(schema, item) for item in value]
    counts = Counter(elements)
    for element, item in zip(elements, value, strict=True):
        if counts[element] == 1:
            _own(item, atoms.item_schema(schema), element, into)
        into.members.add(element)


# --- without some fields --------------------------------------------------------------------------------


def without(value: Any, schema: Schema, gone: FieldSet) -> Any:
    """Returns `value` without the fields in `gone`; a map or list that has lost everything becomes null."""
    shape = atoms.shape_of(schema, value)
    if shape is Shape.SCALAR:
        return value
    if not value or not isinstance(value, dict | list):
        return None
    if isinstance(value, dict):
        return None if atoms.is_atomic(schema) else _without_fields(value, schema, gone)
    return None if atoms.is_atomic_list(schema) else _without_items(value, schema, gone)


def _without_fields(value: dict[str, Any], schema: Schema, gone: FieldSet) -> Any:
    kept = {}
    for name, item in value.items():
        element = path_elements.field(name)
        if element in gone.members:
            continue
        below = gone.children.get(element)
        if below is not None and not below.is_empty():
            item = without(item, atoms.field_schema(schema, name) or atoms.ANY, below)
        kept[name] = item
    return kept or None


def _without_items(value: list[Any], schema: Schema, gone: FieldSet) -> Any:
    kept = []
    for item in value:
        element = atoms.item_element(schema, item)
        if element in gone.members:
            continue
        below = gone.children.get(element)
        changed = below is not None and not below.is_empty()
        kept.append(without(item, atoms.item_schema(schema), gone.below(element)) if changed else item)
    return kept or None


# --- sets over a schema ---------------------------------------------------------------------------------


def _schema_below(schema: Schema | None, element: str) -> Schema | None:
    if schema is None:
        return None
    if element[0] == "f":
        is_map = schema.kind in (Kind.OBJECT, Kind.MAP, Kind.ANY)
        return atoms.field_schema(schema, element[2:]) if is_map else None
    return atoms.item_schema(schema) if schema.kind is Kind.LIST and element[0] == "k" else None


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Returns `fields` and each declared field that some of them are below."""
    found = FieldSet(fields.members)
    for element, below in fields.children.items():
        if schema is not None and element[0] == "f" and atoms.is_named(schema, element[2:]):
            found.members.add(element)
        found.children[element] = with_named_fields(below, _schema_below(schema, element))
    return found


def reconciled(fields: FieldSet, schema: Schema) -> FieldSet:
    """Returns `fields` as the schema is now: what lies below something atomic becomes that as a whole."""
    if not fields.children:
        return fields
    found: FieldSet | None = None
    for element, below in fields.children.items():
        there = _reconcilable(schema, element)
        if there is None:
            continue
        atomic = atoms.is_atomic(there)
        changed = None if atomic else reconciled(below, there)
        if not atomic and changed is below:
            continue
        if found is None:
            found = FieldSet(fields.members, dict(fields.children))
        if changed is None:
            found.members.add(element)
            del found.children[element]
        else:
            found.children[element] = changed
    return found or fields


def _reconcilable(schema: Schema, element: str) -> Schema | None:
    """Returns the schema of an element where it matters: declared, and a map or a list."""
    if element[0] == "f":
        there = atoms.field_schema(schema, element[2:]) if schema.kind in (Kind.OBJECT, Kind.MAP) else None
    else:
        there = atoms.item_schema(schema) if schema.kind is Kind.LIST else None
    return there if there is not None and there.kind in (Kind.OBJECT, Kind.MAP, Kind.LIST) else None

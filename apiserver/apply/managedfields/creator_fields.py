"""Computes the one entry of a new object that nobody managed before: its creator owns everything it sets.

A new object is compared with a blank one of its Go type, so its creator owns what a struct holds, but not
the struct. Custom resources have no Go type: nothing is there before them. The result is computed without the
sets in between, because creates are what a server does most. Each schema that is met becomes a function once:
it knows the elements of its fields and what is below.

Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go (the live object is a new one of the kind) and
k8s.io/apimachinery/pkg/runtime/converter.go (omitempty omits no struct), 1.36.
"""

from collections.abc import Callable
from typing import Any

from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.managedfields import entries, fieldpath, typed
from kubeskew.apiserver.apply.managedfields.fieldpath import FieldSet
from kubeskew.apiserver.apply.managedfields.typed import ABSENT

_TIMES = frozenset({"date-time", "micro-time"})  # structs that are written as null
_STRUCTS = {Kind.INT_OR_STRING: 0, Kind.QUANTITY: "0"}
_ZEROS = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}
Fields = dict[str, Any]
Owned = Callable[[Any], Fields | None]  # what is below a field's element; None if the field is as in a blank
Below = Callable[[Any], Fields]  # what follows an element that is owned itself

_SCALARS = frozenset(
    {Kind.STRING, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.INT_OR_STRING, Kind.QUANTITY}
)
_NAMES_MAX = 1024  # of one map or list, of which the elements are kept; and characters of such an element


def blank_object(schema: Schema) -> dict[str, Any]:
    values = ((name, blank_value(field)) for name, field in schema.fields.items())
    return {name: value for name, value in values if value is not ABSENT}


def blank_value(field: Field) -> Any:
    """ABSENT if Go omits the field when it is not set."""
    schema = field.schema
    if field.pointer:
        return ABSENT if field.omit_empty else None
    if schema.kind is Kind.OBJECT:
        return blank_object(schema)
    if schema.format in _TIMES:
        return None
    if schema.kind in _STRUCTS:
        return _STRUCTS[schema.kind]
    return ABSENT if field.omit_empty else _ZEROS.get(schema.kind)


def serves(reset: FieldSet | None) -> bool:
    """`reset` may name top-level fields only."""
    return reset is None or not reset.children


class CreatorFields:
    """Keeps the walks over the schemas it has met, for as long as it lives."""

    def __init__(self) -> None:
        self._below: dict[Schema, Below | None] = {}
        self._structs: dict[Schema, Below] = {}

    def fields_of(
        self, obj: dict[str, Any], schema: Schema, reset: FieldSet | None, *, blank: bool = False
    ) -> Fields:
        """FieldsV1 has all that `obj` sets, without `reset` and what nobody owns; raises ItemError.

        Without `blank`, nothing was there before.
        """
        below = self._struct(schema) if blank else self._of(schema)
        found = below(obj) if below is not None else {}
        found.pop(".", None)
        for element in sorted(reset.members) if reset is not None else ():
            found.pop(element, None)
        for element in sorted(entries.UNOWNED.members & found.keys()):
            nobodys = {".", *entries.UNOWNED.below(element).members}
            left = {text: part for text, part in found[element].items() if text not in nobodys}
            if left:
                found[element] = left
            else:
                del found[element]
        return found

    def _of(self, schema: Schema) -> Below | None:
        """None if nothing is ever below the schema."""
        found = self._below.get(schema)
        if found is None and schema not in self._below:
            found = self._below[schema] = self._made(schema)
        return found

    def _made(self, schema: Schema) -> Below | None:
        if schema.kind in _SCALARS or typed.is_atomic(schema):
            return None
        return self._list(schema) if schema.kind is Kind.LIST else self._map(schema)

    def _map(self, schema: Schema) -> Below:
        known: dict[str, tuple[str, Below | None]] = {}  # by name: its element, and what may be below

        def below(value: Any) -> Fields:
            if not value or not isinstance(value, dict):
                return {}
            found: Fields = {".": {}}
            for name in sorted(value):
                part = known.get(name)
                if part is None:
                    part = fieldpath.field(name), self._of(typed.field_schema(schema, name) or typed.ANY)
                    if len(known) < _NAMES_MAX and len(name) < _NAMES_MAX:
                        known[name] = part
                element, inner = part
                found[element] = inner(value[name]) if inner is not None else {}
            return found

        return below

    def _struct(self, schema: Schema) -> Below:
        made = self._structs.get(schema)
        if made is not None:
            return made
        known: dict[str, tuple[str, Owned]] = {}  # by name: its element, and what may be below

        def below(value: Any) -> Fields:
            found: Fields = {}
            for name in sorted(value):
                part = known.get(name)
                if part is None:
                    field = schema.fields.get(name)
                    owned = self._absent(typed.ANY) if field is None else self._field(field)
                    part = fieldpath.field(name), owned
                    if field is not None:
                        known[name] = part
                element, owned = part
                inner = owned(value[name])
                if inner is not None:
                    found[element] = inner
            return found

        self._structs[schema] = below
        return below

    def _field(self, field: Field) -> Owned:
        """Its struct is there from the start, so a field with its blank value is not owned."""
        before, inner = blank_value(field), self._of(field.schema)
        if before is typed.ABSENT:
            return self._absent(field.schema)
        if isinstance(before, dict) and inner is not None:
            struct = self._struct(field.schema)
            return lambda value: struct(value) or None

        def owned(value: Any) -> Fields | None:
            if value == before:
                return None
            found = inner(value) if inner is not None else {}
            found.pop(".", None)
            return found

        return owned

    def _absent(self, schema: Schema) -> Owned:
        below = self._of(schema)
        return (lambda _value: {}) if below is None else below

    def _list(self, schema: Schema) -> Below:
        item_schema = typed.schema_of_items(schema)
        only = schema.list_keys[0] if len(schema.list_keys) == 1 else ""
        known: dict[Any, str] = {}  # elements by their only key

        def below(value: Any) -> Fields:
            if not value or not isinstance(value, list):
                return {}
            by_element: dict[str, list[Any]] = {}
            for item in value:
                key = item.get(only) if only and item.__class__ is dict else None
                element = known.get(key) if key.__class__ is str else None
                if element is None:
                    element = typed.item_element(schema, item)
                    if key.__class__ is str and len(known) < _NAMES_MAX and len(element) < _NAMES_MAX:
                        known[key] = element
                by_element.setdefault(element, []).append(item)
            elements = fieldpath.in_order(by_element) if len(by_element) > 1 else by_element
            inner = self._of(item_schema)  # not before: schemas may be recursive
            found: Fields = {".": {}}
            for element in elements:
                same = by_element[element]  # several of one key are owned as one
                found[element] = inner(same[0]) if inner is not None and len(same) == 1 else {}
            return found

        return below

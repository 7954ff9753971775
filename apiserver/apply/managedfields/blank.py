"""Makes the JSON that Go writes of an empty object: structs, and nulls and zeros that are never omitted.

A create is compared with that, so its creator owns what a struct holds but not the struct. Custom resources
have no Go type: nothing is there before them.

Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go (the live object is a new one of the kind) and
k8s.io/apimachinery/pkg/runtime/converter.go (omitempty omits no struct), 1.36.
"""

from typing import Any

from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.managedfields.atoms import ABSENT

_TIMES = frozenset({"date-time", "micro-time"})  # structs that are written as null
_STRUCTS = {Kind.INT_OR_STRING: 0, Kind.QUANTITY: "0"}
_ZEROS = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}


def blank_object(schema: Schema) -> dict[str, Any]:
    """Returns the fields of an empty struct that are written."""
    values = ((name, blank_value(field)) for name, field in schema.fields.items())
    return {name: value for name, value in values if value is not ABSENT}


def blank_value(field: Field) -> Any:
    """Returns the JSON of a field that is not set; ABSENT if it is omitted."""
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

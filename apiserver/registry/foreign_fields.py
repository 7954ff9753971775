"""Drops stored fields that another design has under the same name with another type.

Where two designs call different fields the same, each has a protobuf number of its own (a number is never
used again), and a server that does not know the number drops the field. Objects are stored as JSON here, and
both have the same key: a value whose type does not fit is the other design's.
"""

from typing import Any

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.schema import Kind, Schema


def without_foreign_fields(value: Any, schema: Schema) -> Any:
    """Returns a stored value without the fields of other designs; `value` itself stays as it is."""
    if isinstance(value, list):
        items = schema.items
        return value if items is None else [without_foreign_fields(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    if schema.kind is Kind.MAP and schema.items is not None:
        inside = schema.items
        return {name: without_foreign_fields(item, inside) for name, item in value.items()}
    foreign = data.foreign_fields().get(schema.name, frozenset())
    kept = {}
    for name, item in value.items():
        field = schema.fields.get(name)
        if field is None:
            kept[name] = item
        elif name not in foreign or not decode_errors.explain(item, field.schema):
            kept[name] = without_foreign_fields(item, field.schema)
    return kept

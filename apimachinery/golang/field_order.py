"""Puts the members of an object in the order in which Go writes them."""

from typing import Any

from kubeskew.apimachinery.schema import Kind, Schema


def in_order(value: Any, schema: Schema | None) -> Any:
    """Returns a copy with fields of structs in Go's order, where that is known, and keys of maps sorted."""
    if schema is None or schema.kind is Kind.ANY:
        return value
    if isinstance(value, list):
        return [in_order(item, schema.items) for item in value]
    if not isinstance(value, dict):
        return value
    if schema.kind is Kind.MAP:
        return {key: in_order(value[key], schema.items) for key in sorted(value)}
    if not schema.in_order:
        return {key: in_order(item, _below(schema, key)) for key, item in value.items()}
    known = {key: in_order(value[key], field.schema) for key, field in schema.fields.items() if key in value}
    return {**known, **{key: item for key, item in value.items() if key not in known}}


def _below(schema: Schema, key: str) -> Schema | None:
    field = schema.fields.get(key)
    return field.schema if field is not None else None

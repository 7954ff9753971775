"""Puts the members of an object in the order in which Go writes them."""

from typing import Any

from kubeskew.apimachinery.schema import Kind, Schema


def in_order(value: Any, schema: Schema | None) -> Any:
    """Fields of structs stand as in Go's struct, keys of maps are sorted; does not change its argument."""
    if schema is None or schema.kind is Kind.ANY:
        return value
    if isinstance(value, list):
        return [in_order(item, schema.items) for item in value]
    if not isinstance(value, dict):
        return value
    if schema.kind is Kind.MAP:
        return {key: in_order(value[key], schema.items) for key in sorted(value)}
    known = {key: in_order(value[key], field.schema) for key, field in schema.fields.items() if key in value}
    return {**known, **{key: item for key, item in value.items() if key not in known}}

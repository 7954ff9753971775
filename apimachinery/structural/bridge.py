"""A structural schema as the one schema value that decoding, patches and server-side apply walk."""

from apimachinery.schema import Field, Kind, Schema
from apimachinery.structural.model import Structural

_TEXT = Schema(Kind.STRING)
_SCALARS = {"string": Kind.STRING, "integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.BOOLEAN}


def to_schema(structural: Structural, metadata: Schema) -> Schema:
    """The schema of a custom resource; `metadata` is the ObjectMeta of this release."""
    fields = {"apiVersion": Field(_TEXT), "kind": Field(_TEXT), "metadata": Field(metadata, pointer=True)}
    for name, below in structural.properties.items():
        if name not in fields:
            fields[name] = Field(_schema(below, metadata), pointer=True)
    unknown = structural.preserve_unknown
    return Schema(Kind.OBJECT, fields=fields, map_type=structural.map_type, preserve_unknown=unknown)


def _schema(structural: Structural, metadata: Schema) -> Schema:
    if structural.int_or_string:
        return Schema(Kind.INT_OR_STRING, nullable=structural.nullable)
    if structural.embedded:
        return to_schema(structural, metadata)
    if structural.type == "object":
        return _object(structural, metadata)
    if structural.type == "array":
        items = _schema(structural.items, metadata) if structural.items else None
        return Schema(
            Kind.LIST,
            items=items,
            list_type=structural.list_type,
            list_keys=structural.list_keys,
            nullable=structural.nullable,
        )
    kind = _SCALARS.get(structural.type)
    if kind is None:
        return Schema(Kind.ANY, preserve_unknown=True)
    return Schema(kind, nullable=structural.nullable)


def _object(structural: Structural, metadata: Schema) -> Schema:
    shape, nullable = structural.map_type, structural.nullable
    if structural.additional is not None:
        items = _schema(structural.additional, metadata)
        return Schema(Kind.MAP, items=items, map_type=shape, nullable=nullable)
    if not structural.properties and structural.preserve_unknown:
        return Schema(Kind.ANY, preserve_unknown=True)
    fields = {
        name: Field(_schema(below, metadata), pointer=True) for name, below in structural.properties.items()
    }
    unknown = structural.preserve_unknown
    return Schema(Kind.OBJECT, fields=fields, map_type=shape, nullable=nullable, preserve_unknown=unknown)

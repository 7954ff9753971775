"""A structural schema as the one schema value that decoding, patches and server-side apply walk.

Source: apiextensions-apiserver pkg/controller/openapi/builder over managedfields' type converter, 1.36: what
it publishes is what server-side apply sees.
"""

from apimachinery.schema import Field, Kind, Schema
from apimachinery.structural.model import Structural

_SCALARS = {
    "string": Kind.STRING,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
}
_ANY = Schema(Kind.ANY, preserve_unknown=True)
_TEXT = Schema(Kind.STRING)


def to_schema(structural: Structural, metadata: Schema) -> Schema:
    """The schema of a custom resource; `metadata` is the ObjectMeta of this release."""
    return _resource(structural, metadata)


def _resource(node: Structural, metadata: Schema) -> Schema:
    """An object with apiVersion, kind and metadata, whatever the schema says of them."""
    meta = {
        "apiVersion": Field(_TEXT, pointer=True),
        "kind": Field(_TEXT, pointer=True),
        "metadata": Field(metadata, pointer=True),
    }
    return Schema(
        Kind.OBJECT,
        fields=meta | {name: each for name, each in _fields(node, metadata).items() if name not in meta},
        map_type=node.map_type,
        nullable=node.nullable,
        preserve_unknown=node.preserve_unknown,
    )


def _fields(node: Structural, metadata: Schema) -> dict[str, Field]:
    """The fields with their defaults, which keys of map lists need."""
    required = frozenset(node.props.get("required") or ())
    return {
        name: Field(
            _convert(below, metadata),
            required=name in required,
            default=below.default,
            has_default=below.has_default,
            pointer=True,
        )
        for name, below in node.properties.items()
    }


def _convert(node: Structural, metadata: Schema) -> Schema:
    if node.int_or_string:
        return Schema(Kind.INT_OR_STRING, nullable=node.nullable)
    if node.embedded:
        return _resource(node, metadata)
    if node.type in _SCALARS:
        return Schema(_SCALARS[node.type], nullable=node.nullable)
    if node.type == "array":
        return Schema(
            Kind.LIST,
            items=_convert(node.items, metadata) if node.items is not None else _ANY,
            list_type=node.list_type,
            list_keys=node.list_keys,
            nullable=node.nullable,
        )
    if node.type == "object" or node.properties:
        return _object(node, metadata)
    return _ANY


def _object(node: Structural, metadata: Schema) -> Schema:
    if node.has_additional and not node.properties:
        return Schema(
            Kind.MAP,
            items=_convert(node.additional, metadata) if node.additional is not None else _ANY,
            map_type=node.map_type,
            nullable=node.nullable,
            preserve_unknown=node.preserve_unknown,
        )
    return Schema(
        Kind.OBJECT,
        fields=_fields(node, metadata),
        map_type=node.map_type,
        nullable=node.nullable,
        preserve_unknown=node.preserve_unknown or node.has_additional,
    )

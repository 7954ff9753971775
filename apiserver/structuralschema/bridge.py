"""Converts a structural schema into the schema that decoding, patches and server-side apply walk.

Source: apiextensions-apiserver pkg/controller/openapi/builder over managedfields' type converter, 1.36: what
it publishes is what server-side apply sees.
"""

from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.structuralschema.model import Structural

_SCALARS = {
    "string": Kind.STRING,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
}
_ANY = Schema(Kind.ANY, preserve_unknown=True)
_TEXT = Schema(Kind.STRING)


def to_schema(structural: Structural, metadata: Schema) -> Schema:
    """Returns the schema of a custom resource; `metadata` is the ObjectMeta of this release."""
    return _Bridge(metadata).resource(structural, structural.preserve_unknown)


class _Bridge:
    """Converts nodes; `open_`: one of them or above preserves unknown fields, so that all below do."""

    def __init__(self, metadata: Schema) -> None:
        self._metadata = metadata

    def resource(self, node: Structural, open_: bool) -> Schema:
        """Returns an object with apiVersion, kind and metadata, whatever the schema says of them."""
        meta = {
            "apiVersion": Field(_TEXT, pointer=True),
            "kind": Field(_TEXT, pointer=True),
            "metadata": Field(self._metadata, pointer=True),
        }
        return Schema(
            Kind.OBJECT,
            fields={**self._fields(node, open_), **meta},
            map_type=node.map_type,
            nullable=node.nullable,
            preserve_unknown=open_,
        )

    def _fields(self, node: Structural, open_: bool) -> dict[str, Field]:
        """Returns the fields with their defaults, which keys of map lists need."""
        required = frozenset(node.props.get("required") or ())
        return {
            name: Field(
                self._convert(below, open_),
                required=name in required,
                default=below.default,
                has_default=below.has_default,
                pointer=True,
            )
            for name, below in node.properties.items()
        }

    def _convert(self, node: Structural, open_: bool) -> Schema:
        open_ = open_ or node.preserve_unknown
        if node.embedded:
            return self.resource(node, open_)
        if node.type in _SCALARS:
            form = node.props.get("format") or ""
            return Schema(_SCALARS[node.type], format=form, nullable=node.nullable)
        if node.type == "array":
            return Schema(
                Kind.LIST,
                items=self._convert(node.items, open_) if node.items is not None else _ANY,
                list_type=node.list_type,
                list_keys=node.list_keys,
                nullable=node.nullable,
            )
        if node.type == "object":
            return self._object(node, open_)
        # Without a type every value is allowed; x-kubernetes-int-or-string has no type.
        fields = self._fields(node, open_)
        return Schema(Kind.ANY, fields=fields, map_type=node.map_type, preserve_unknown=True)

    def _object(self, node: Structural, open_: bool) -> Schema:
        extra = node.props.get("additionalProperties")
        if extra not in (None, False) and not node.properties:
            return Schema(
                Kind.MAP,
                items=self._convert(node.additional, open_) if node.additional is not None else _ANY,
                map_type=node.map_type,
                nullable=node.nullable,
                preserve_unknown=node.preserve_unknown,
            )
        return Schema(
            Kind.OBJECT,
            fields=self._fields(node, open_),
            map_type=node.map_type,
            nullable=node.nullable,
            preserve_unknown=extra is not False and (open_ or extra is not None or not node.properties),
        )

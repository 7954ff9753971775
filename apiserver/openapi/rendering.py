"""Renders schema trees as OpenAPI schemas, in the dialect of v2 or v3.

Source: k8s.io/kube-openapi; what v2 cannot say is left out (nullable, oneOf, defaults), as upstream does for
clients that validate with it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Field, Kind, Schema

Document = dict[str, Any]

GVK = "x-kubernetes-group-version-kind"
_PLAIN = {
    Kind.STRING: "string",
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.BOOLEAN: "boolean",
}
_ZERO: dict[Kind, Any] = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}
# Named types that say nothing about their shape (their Go types marshal themselves).
_SHAPELESS = (".JSON", ".JSONSchemaPropsOrArray", ".JSONSchemaPropsOrBool", ".JSONSchemaPropsOrStringArray")
_SHOWN_FORMATS = {"micro-time": "date-time", "duration": ""}


def gvk_entry(gvk: GroupVersionKind) -> Document:
    """Makes an entry of `x-kubernetes-group-version-kind`."""
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


class Renderer:
    """Renders schemas of one document and remembers which named definitions they refer to."""

    def __init__(self, prefix: str, types: Mapping[str, Schema], with_defaults: bool) -> None:
        """Takes the `prefix` of references, such as `#/definitions/`; defaults belong to v3 only."""
        self.prefix = prefix
        self.types = types
        self.modern = with_defaults
        self._waiting: dict[str, Schema] = {}
        self.definitions: dict[str, Document] = {}

    def reference(self, schema: Schema) -> Document:
        """Returns a `$ref` to a named definition, which becomes part of the document."""
        if schema.name not in self.definitions:
            self._waiting.setdefault(schema.name, self._own(schema))
        return {"$ref": self.prefix + schema.name}

    def _own(self, schema: Schema) -> Schema:
        """Returns the definition itself: a field may use it with another map type."""
        own = self.types.get(schema.name)
        return schema if own is None else own

    def define(self, name: str, schema: Schema, kinds: Iterable[GroupVersionKind] = ()) -> None:
        """Adds a definition, with the kinds it is."""
        rendered = self.definitions.get(name)
        if rendered is None:
            described: Document = {"description": schema.description} if schema.description else {}
            rendered = self.definitions[name] = described | self._shape(schema)
            self._waiting.pop(name, None)
        listed = [gvk_entry(gvk) for gvk in kinds]
        if listed:
            rendered[GVK] = listed

    def finish(self) -> dict[str, Document]:
        """Returns all definitions, with everything they refer to, by name."""
        while self._waiting:
            name, schema = self._waiting.popitem()
            self.define(name, schema)
        return dict(sorted(self.definitions.items()))

    def inline(self, schema: Schema) -> Document:
        """Returns a schema where it is used: a reference if it is named, else its shape."""
        return self.reference(schema) if schema.name else self._shape(schema)

    def _shape(self, schema: Schema) -> Document:
        shape = self._bare(schema)
        if schema.enum:
            shape["enum"] = list(schema.enum)
        if self.modern and schema.nullable:
            shape["nullable"] = True
        if schema.preserve_unknown and not schema.name:
            shape["x-kubernetes-preserve-unknown-fields"] = True
        return shape

    def _bare(self, schema: Schema) -> Document:
        match schema.kind:
            case Kind.OBJECT:
                return self._object(schema)
            case Kind.MAP:
                values = self._element(schema.items) if schema.items else {"type": "string"}
                shape: Document = {"type": "object", "additionalProperties": values}
                return _with_map_type(shape, schema)
            case Kind.LIST:
                return self._list(schema)
            case Kind.QUANTITY:
                return (
                    {"oneOf": [{"type": "string"}, {"type": "number"}]} if self.modern else {"type": "string"}
                )
            case Kind.INT_OR_STRING:
                return self._int_or_string(schema)
            case Kind.ANY:
                return {} if schema.name.endswith(_SHAPELESS) else {"type": "object"}
        form = _SHOWN_FORMATS.get(schema.format, schema.format)
        return {"type": _PLAIN[schema.kind]} | ({"format": form} if form else {})

    def _int_or_string(self, schema: Schema) -> Document:
        if not schema.name:
            return {"x-kubernetes-int-or-string": True}
        if self.modern:
            return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
        return {"type": "string", "format": "int-or-string"}

    def _list(self, schema: Schema) -> Document:
        shape: Document = {"type": "array", "items": self._element(schema.items) if schema.items else {}}
        if schema.list_type_implied:
            return shape
        if schema.list_keys:
            shape["x-kubernetes-list-map-keys"] = list(schema.list_keys)
        shape["x-kubernetes-list-type"] = schema.list_type
        return shape

    def _element(self, schema: Schema) -> Document:
        """Returns a list's item or a map's value; in v3 with Go's zero value as default."""
        return self._with_default(self.inline(schema), schema, _zero(schema))

    def _object(self, schema: Schema) -> Document:
        shape: Document = {"type": "object"}
        if schema.fields:
            shape["properties"] = {name: self._field(field) for name, field in sorted(schema.fields.items())}
        required = sorted(name for name, field in schema.fields.items() if field.required)
        if required:
            shape["required"] = required
        return _with_map_type(shape, schema)

    def _field(self, field: Field) -> Document:
        shape = self.inline(field.schema)
        if field.has_default:
            shape = self._with_default(shape, field.schema, field.default)
        elif not field.pointer and not field.omit_empty:
            shape = self._with_default(shape, field.schema, _zero(field.schema))
        if field.schema.name and self._own(field.schema).map_type != field.schema.map_type:
            shape["x-kubernetes-map-type"] = field.schema.map_type
        if field.patch_strategy:
            shape["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
        if field.patch_merge_key:
            shape["x-kubernetes-patch-merge-key"] = field.patch_merge_key
        return self._described(shape, field.description)

    def _described(self, shape: Document, description: str) -> Document:
        """Returns a field's shape with its description, which v3 does not have beside a reference."""
        if not description:
            return shape
        if self.modern and "$ref" in shape:
            shape = {"allOf": [shape]}
        return {"description": description} | shape

    def _with_default(self, shape: Document, schema: Schema, default: Any) -> Document:
        if not self.modern or default is None:
            return shape
        if schema.name:  # nothing may stand beside a $ref
            return {"allOf": [shape], "default": default}
        return shape | {"default": default}


def _with_map_type(shape: Document, schema: Schema) -> Document:
    if schema.map_type != "granular":
        shape["x-kubernetes-map-type"] = schema.map_type
    return shape


def _zero(schema: Schema) -> Any:
    if schema.name:
        return {} if schema.kind is Kind.OBJECT else None
    return _ZERO.get(schema.kind)


def definition_name(group: str, version: str, kind: str, schema: Schema) -> str:
    """Returns the definition of a resource's kind; a custom one is named after its group, read backwards."""
    if schema.name:
        return schema.name
    return ".".join([*reversed(group.split(".")), version, kind])

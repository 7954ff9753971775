"""Renders schema trees as OpenAPI schemas, in the dialect of v2 or v3.

Source: k8s.io/kube-openapi pkg/{builder,builder3,generators}, 1.36; what v2 cannot say is left out (nullable,
oneOf, defaults), as upstream does for clients that validate with it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.descriptions import DESCRIPTIONS
from kubeskew.apiserver.openapi.facts import Facts

Document = dict[str, Any]
Definer = Callable[[], Document]

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


def gvk_entries(kinds: Iterable[GroupVersionKind]) -> Document:
    """Makes the extension of a definition that is of some kinds; nothing for one of none."""
    entries = [gvk_entry(gvk) for gvk in kinds]
    return {GVK: entries} if entries else {}


class Renderer:
    """Renders schemas of one document and remembers which named definitions they refer to."""

    def __init__(
        self, modern: bool, types: Mapping[str, Schema], features: DocumentFeatures, facts: Facts
    ) -> None:
        """Takes whether the document is of v3 (`modern`), to which defaults belong."""
        self.prefix = "#/components/schemas/" if modern else "#/definitions/"
        self.modern = modern
        self.types = types
        self.features = features
        self.facts = facts
        self.definitions: dict[str, Document] = {}
        self._waiting: dict[str, None] = {}

    def reference(self, name: str) -> Document:
        """Returns a `$ref` to a named definition, which becomes part of the document."""
        if name not in self.definitions:
            self._waiting[name] = None
        return {"$ref": self.prefix + name}

    def finish(self, define: Callable[[str], Document]) -> dict[str, Document]:
        """Returns all definitions, with everything they refer to, by name; `define` makes one."""
        while self._waiting:
            name, _ = self._waiting.popitem()
            self.definitions[name] = {}  # it may refer to itself
            self.definitions[name] = define(name)
        return dict(sorted(self.definitions.items()))

    def inline(self, schema: Schema) -> Document:
        """Returns a schema where it is used: a reference if it is named, else its shape."""
        return self.reference(schema.name) if schema.name else self.shape(schema)

    def shape(self, schema: Schema) -> Document:
        """Returns a schema itself, as a definition has it."""
        shape = self._bare(schema)
        if schema.enum and self.features.enums:
            shape["enum"] = list(schema.enum)
        if self.modern and schema.nullable:
            shape["nullable"] = True
        if schema.preserve_unknown and not schema.name:
            shape["x-kubernetes-preserve-unknown-fields"] = True
        return _text(schema.description or DESCRIPTIONS.get(schema.name, "")) | shape

    def described(self, name: str, description: str) -> Document:
        """Returns a reference with a description, beside which v3 has none."""
        reference = self.reference(name)
        return _text(description) | ({"allOf": [reference]} if self.modern else reference)

    def _bare(self, schema: Schema) -> Document:
        match schema.kind:
            case Kind.OBJECT:
                return self._object(schema)
            case Kind.MAP:
                values = self._element(schema.items) if schema.items else {"type": "string"}
                shape: Document = {"type": "object", "additionalProperties": values}
                if schema.map_type != "granular":
                    shape["x-kubernetes-map-type"] = schema.map_type
                return shape
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
        """Returns a list's item or a map's value, of older releases with Go's zero value as default."""
        shape = self.inline(schema)
        return self._with_default(shape, _zero(schema)) if self.features.element_defaults else shape

    def _object(self, schema: Schema) -> Document:
        shape: Document = {"type": "object"}
        if schema.fields:
            shape["properties"] = {
                name: self._field(f"{schema.name}.{name}", field)
                for name, field in sorted(schema.fields.items())
            }
        required = self._required(schema)
        if required:
            shape["required"] = required
        if schema.map_type != "granular":
            shape["x-kubernetes-map-type"] = schema.map_type
        return {**shape, **self.facts.extensions.get(schema.name, {})}

    def _required(self, schema: Schema) -> list[str]:
        """Returns the names of the required fields in the order of the Go struct."""
        required = sorted(name for name, field in schema.fields.items() if field.required)
        order = self.facts.order.get(schema.name, ())
        return [name for name in order if name in required] + [name for name in required if name not in order]

    def _field(self, path: str, field: Field) -> Document:
        shape = self.inline(field.schema)
        if self.modern and "$ref" in shape and path not in self.facts.bare:
            shape = {"allOf": [shape]}  # nothing may stand beside a reference, such as a description
        if field.has_default:
            shape = self._with_default(shape, field.default)
        elif not field.pointer and not field.omit_empty:
            shape = self._with_default(shape, _zero(field.schema))
        if self.features.enums and path in self.facts.enums:
            shape.pop("enum", None)
            shape |= {"enum": values} if (values := self.facts.enums[path]) else {}
        own = self.types.get(field.schema.name)
        if own is not None and own.map_type != field.schema.map_type:
            shape["x-kubernetes-map-type"] = field.schema.map_type
        if field.patch_strategy:
            shape["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
        if field.patch_merge_key:
            shape["x-kubernetes-patch-merge-key"] = field.patch_merge_key
        description = field.description or DESCRIPTIONS.get(path, "")
        return {**_text(description), **shape, **self.facts.extensions.get(path, {})}

    def _with_default(self, shape: Document, default: Any) -> Document:
        if not self.modern or default is None:
            return shape
        if "$ref" in shape:
            shape = {"allOf": [shape]}
        return shape | {"default": default}


def _text(description: str) -> Document:
    return {"description": description} if description else {}


def _zero(schema: Schema) -> Any:
    """Returns the default of a field that Go always writes: none for named types that are no structs, and for
    bytes, which are a slice.
    """
    if schema.name:
        return {} if schema.kind is Kind.OBJECT else None
    return None if schema.format == "byte" else _ZERO.get(schema.kind)


def definition_name(group: str, version: str, kind: str, schema: Schema) -> str:
    """Returns the definition of a resource's kind; a custom one is named after its group, read backwards."""
    if schema.name:
        return schema.name
    return ".".join([*reversed(group.split(".")), version, kind])

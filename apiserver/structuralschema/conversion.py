"""Converts structural schemas: for decoding and apply, for OpenAPI, and into Go's structs for errors.

Sources: apiextensions-apiserver pkg/controller/openapi/builder over managedfields' type converter, 1.36: what
it publishes is what server-side apply sees; apiextensions-apiserver
pkg/controller/openapi/{builder/builder,v2/conversion}.go, 1.36. v3 says everything; v2, with which clients
validate, leaves out what it cannot say, often with all that is below; apiextensions-apiserver
pkg/apis/apiextensions/types_jsonschema.go, 1.36.
"""

from typing import Any, Final

from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
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
_PUBLISHED_SCALARS: Final = (
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum",
    "maxProperties", "minProperties", "required", "default", "nullable", "externalDocs",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-validations",
)  # fmt: skip
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PREFIXES: Final = {True: "#/definitions/", False: "#/components/schemas/"}
# JSON name, Go name, Go's zero value.
_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("id", "ID", ""), ("$schema", "Schema", ""), ("$ref", "Ref", None), ("description", "Description", ""),
    ("type", "Type", ""), ("nullable", "Nullable", False), ("format", "Format", ""), ("title", "Title", ""),
    ("default", "Default", None), ("maximum", "Maximum", None),
    ("exclusiveMaximum", "ExclusiveMaximum", False),
    ("minimum", "Minimum", None), ("exclusiveMinimum", "ExclusiveMinimum", False),
    ("maxLength", "MaxLength", None), ("minLength", "MinLength", None), ("pattern", "Pattern", ""),
    ("maxItems", "MaxItems", None), ("minItems", "MinItems", None), ("uniqueItems", "UniqueItems", False),
    ("multipleOf", "MultipleOf", None), ("enum", "Enum", None), ("maxProperties", "MaxProperties", None),
    ("minProperties", "MinProperties", None), ("required", "Required", None), ("items", "Items", None),
    ("allOf", "AllOf", None), ("oneOf", "OneOf", None), ("anyOf", "AnyOf", None), ("not", "Not", None),
    ("properties", "Properties", None), ("additionalProperties", "AdditionalProperties", None),
    ("patternProperties", "PatternProperties", None), ("dependencies", "Dependencies", None),
    ("additionalItems", "AdditionalItems", None), ("definitions", "Definitions", None),
    ("externalDocs", "ExternalDocs", None), ("example", "Example", None),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", None),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", False),
    ("x-kubernetes-int-or-string", "XIntOrString", False),
    ("x-kubernetes-list-map-keys", "XListMapKeys", None),
    ("x-kubernetes-list-type", "XListType", None), ("x-kubernetes-map-type", "XMapType", None),
    ("x-kubernetes-validations", "XValidations", None),
)  # fmt: skip
_SCHEMA_LISTS = frozenset({"allOf", "oneOf", "anyOf"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "definitions"})


def to_schema(structural: Structural, metadata: Schema) -> Schema:
    """`metadata` is the ObjectMeta of this release."""
    return _Bridge(metadata).resource(structural, structural.preserve_unknown)


class _Bridge:
    """With `open_`, a node or one above it preserves unknown fields, so that all below do."""

    def __init__(self, metadata: Schema) -> None:
        self._metadata = metadata

    def resource(self, node: Structural, open_: bool) -> Schema:
        """Every resource has apiVersion, kind and metadata, no matter what its schema says of them."""
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


def openapi(props: Object | None, *, v2: bool) -> Object:
    """The published form of a root schema has no apiVersion, kind and metadata yet.

    Where nothing can be said it is just `{"type": "object"}`, and nothing may be added then.
    """
    if props is None or (v2 and props.get(_FREE)):
        return {"type": "object"}
    return _publish(props, v2)


def _publish(props: Object, v2: bool) -> Object:
    shape = {name: props[name] for name in _PUBLISHED_SCALARS if _says(name, props.get(name))}
    below: Object = {
        name: props[name] for name in ("properties", "items", "additionalProperties") if name in props
    }
    if v2:
        _narrow(shape, below, props)
    if below.get("properties"):
        shape["properties"] = {name: _publish(prop, v2) for name, prop in sorted(below["properties"].items())}
    for name in ("items", "additionalProperties"):
        value = below.get(name)
        if isinstance(value, dict):
            shape[name] = _publish(value, v2)
        elif isinstance(value, bool):
            shape[name] = value
    if not v2:
        shape |= _junctors(props)
    if props.get("x-kubernetes-embedded-resource") and not (v2 and props.get(_FREE)):
        _embed(shape, v2)
    return shape


def _says(name: str, value: Any) -> bool:
    """Go leaves out zero values, but for a default."""
    if value is None:
        return False
    return name == "default" or not (value is False or value in ("", [], {}))


def _narrow(shape: Object, below: Object, props: Object) -> None:
    """Removes what v2 cannot express; kubectl rejects a list without items, or properties without type."""
    shape.pop("default", None)
    if props.get("nullable"):
        shape.pop("type", None)
        shape.pop("nullable", None)
    if props.get("nullable") or props.get(_FREE):
        below.pop("items", None)
        below.pop("properties", None)
    kind = shape.get("type")
    if (kind == "array" and not isinstance(below.get("items"), dict)) or (
        kind == "object" and props.get(_FREE)
    ):
        del shape["type"]
    extra = below.get("additionalProperties")
    if isinstance(extra, dict) and extra.get("nullable"):
        shape.pop("required", None)
    elif "required" in shape:
        fields = below.get("properties") or {}
        left = [name for name in shape["required"] if not fields.get(name, {}).get("nullable")]
        shape["required"] = left
        if not left:
            del shape["required"]


def _junctors(props: Object) -> Object:
    shape: Object = {
        name: [_publish(prop, False) for prop in props[name]] for name in _JUNCTORS if props.get(name)
    }
    if isinstance(props.get("not"), dict):
        shape["not"] = _publish(props["not"], False)
    if props.get("x-kubernetes-int-or-string"):
        said = (
            shape.get("anyOf") == _INT_OR_STRING or _first(shape.get("allOf")).get("anyOf") == _INT_OR_STRING
        )
        if "anyOf" not in shape:
            if not said:
                shape["anyOf"] = [dict(schema) for schema in _INT_OR_STRING]
        elif not said:
            both = {"anyOf": [dict(schema) for schema in _INT_OR_STRING]}
            shape["allOf"] = [both, *shape.get("allOf", ())]
    return shape


def _first(schemas: list[Object] | None) -> Object:
    return schemas[0] if schemas else {}


def _embed(shape: Object, v2: bool) -> None:
    """Adds apiVersion, kind and metadata of an embedded resource; in v3 a reference stands alone."""
    reference: Object = {"$ref": _PREFIXES[v2] + _OBJECT_META}
    shape["properties"] = shape.get("properties", {}) | {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": reference if v2 else {"allOf": [reference]},
    }
    needed = shape.get("required", [])
    shape["required"] = [*needed, *(name for name in ("kind", "apiVersion") if name not in needed)]


def go_schema(props: Object) -> Object:
    return {go: _go_field(name, given(props, name), zero) for name, go, zero in _FIELDS}


def go_set_fields(props: Object) -> list[str]:
    """The order is that of Go's struct."""
    return [go for name, go, zero in _FIELDS if props.get(name) not in (None, zero) or _is_set(props, name)]


def _is_set(props: Object, name: str) -> bool:
    return props.get(name) in ({}, [], False) and name in {"additionalProperties", "externalDocs", "default"}


def go_rule(given: Object) -> Object:
    return {
        "Rule": given.get("rule") or "",
        "Message": given.get("message") or "",
        "MessageExpression": given.get("messageExpression") or "",
        "Reason": given.get("reason"),
        "FieldPath": given.get("fieldPath") or "",
        "OptionalOldSelf": given.get("optionalOldSelf"),
    }


def _go_field(name: str, value: Any, zero: Any) -> Any:
    if value is None:
        return zero
    if name in _SCHEMA_LISTS:
        return [go_schema(element) for element in value]
    if name in _SCHEMA_MAPS:
        return {key: go_schema(value[key]) for key in sorted(value)}
    if name == "items":
        several = isinstance(value, list)
        return {
            "Schema": None if several else go_schema(value),
            "JSONSchemas": [go_schema(element) for element in value] if several else None,
        }
    if name in {"additionalProperties", "additionalItems"}:
        return {"Allows": value is not False, "Schema": go_schema(value) if isinstance(value, dict) else None}
    if name == "x-kubernetes-validations":
        return [go_rule(element) for element in value]
    if name == "externalDocs":
        return {"Description": value.get("description") or "", "URL": value.get("url") or ""}
    return go_schema(value) if name == "not" else value

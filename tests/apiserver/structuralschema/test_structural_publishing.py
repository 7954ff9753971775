"""Structural schemas as others see them: OpenAPI, and the one schema value."""

from typing import Any

import pytest

from kubeskew.apimachinery.catalogue.types import OBJECT_META, types_of
from kubeskew.apimachinery.schema import Kind
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.structuralschema import Structural, openapi, to_schema

TEXT = {"type": "string"}
FREE = {"x-kubernetes-preserve-unknown-fields": True}
ANY_OF = [{"type": "integer"}, {"type": "string"}]
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


@pytest.mark.parametrize(
    ("props", "v2", "v3"),
    [
        (
            {
                "type": "string",
                "description": "d",
                "minLength": 0,
                "default": "",
                "example": 1,
                "uniqueItems": False,
            },
            {"type": "string", "description": "d", "minLength": 0},
            {"type": "string", "description": "d", "minLength": 0, "default": ""},
        ),
        (
            {"type": "object", "nullable": True, "properties": {"a": TEXT}},
            {},
            {"type": "object", "nullable": True, "properties": {"a": TEXT}},
        ),
        (
            {"type": "object", **FREE, "properties": {"a": TEXT}},
            {**FREE},
            {"type": "object", **FREE, "properties": {"a": TEXT}},
        ),
        (
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": ANY_OF},
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"minimum": 1}]},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"minimum": 1}], "allOf": [{"anyOf": ANY_OF}]},
        ),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {**TEXT, "nullable": True}, "b": TEXT},
            },
            {"type": "object", "required": ["b"], "properties": {"a": {}, "b": TEXT}},
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {**TEXT, "nullable": True}, "b": TEXT},
            },
        ),
        (
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "required": ["kind"],
                "properties": {},
            },
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {
                    "apiVersion": TEXT,
                    "kind": TEXT,
                    "metadata": {"$ref": f"#/definitions/{META}"},
                },
                "required": ["kind", "apiVersion"],
            },
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {
                    "apiVersion": TEXT,
                    "kind": TEXT,
                    "metadata": {"allOf": [{"$ref": f"#/components/schemas/{META}"}]},
                },
                "required": ["kind", "apiVersion"],
            },
        ),
        (
            {"type": "object", "additionalProperties": True},
            {"type": "object", "additionalProperties": True},
            None,
        ),
    ],
)
def test_what_is_published(props: dict[str, Any], v2: dict[str, Any], v3: dict[str, Any] | None):
    """v3 says everything but examples; v2 leaves out what it cannot say, with all below."""
    root = {"type": "object", "properties": {"x": props}}
    assert openapi(root, v2=True)["properties"]["x"] == v2
    assert openapi(root, v2=False)["properties"]["x"] == (v2 if v3 is None else v3)


def test_what_cannot_be_described_is_an_object():
    """Without a schema, and in v2 with unknown fields kept, nothing else is said."""
    assert openapi(None, v2=False) == openapi({"type": "object", **FREE}, v2=True) == {"type": "object"}


def test_the_bridge_knows_lists_maps_and_metadata():
    """Server-side apply gets a schema's list types, keys, atomic maps and embedded resources."""
    items = {"type": "object", "properties": {"k": TEXT}}
    root = Structural.of(
        {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": items,
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "atom": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": TEXT,
                },
                "free": {"type": "object", **FREE},
                "either": {"x-kubernetes-int-or-string": True},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, **FREE},
                "maybe": {"type": "string", "nullable": True, "default": "x"},
            },
        }
    )
    metadata = types_of(DEFAULT_VERSION)[OBJECT_META]
    fields = to_schema(root, metadata).fields
    assert fields["metadata"].schema is metadata
    assert (fields["list"].schema.list_type, fields["list"].schema.list_keys) == ("map", ("k",))
    assert fields["set"].schema.list_type == "set"
    assert (fields["atom"].schema.kind, fields["atom"].schema.map_type) == (Kind.MAP, "atomic")
    assert fields["free"].schema.preserve_unknown
    assert fields["either"].schema.kind is Kind.ANY
    assert fields["embedded"].schema.fields["metadata"].schema is metadata
    assert fields["maybe"].schema.nullable
    assert (fields["maybe"].has_default, fields["maybe"].default) == (True, "x")
    assert all(field.pointer for field in fields.values())

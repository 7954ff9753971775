"""What OpenAPI publishes of a definition's schema.

Source: apiextensions-apiserver pkg/controller/openapi/{builder,v2}, 1.36. v3 says everything; v2, with which
clients validate, leaves out what it cannot say, and then whole parts: a field that may be null has no type.
"""

from collections.abc import Callable
from typing import Any

from apimachinery.errors import Object

_SCALARS = (
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum",
    "maxProperties", "minProperties", "required", "default", "nullable", "externalDocs", "example",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-validations",
)  # fmt: skip
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_KEPT_EMPTY = {"default", "example"}


def openapi(props: Object, *, v2: bool) -> Object:
    """The published form of a JSONSchemaProps; of the root, without apiVersion, kind and metadata."""
    return _v2(props) if v2 else _v3(props)


def _known(props: Object) -> Object:
    """The fields of its own that a schema has, zero values left out as Go does."""
    return {
        name: props[name]
        for name in _SCALARS
        if props.get(name) is not None
        and (name in _KEPT_EMPTY or props[name] not in ("", [], {}) or props[name] is True)
        and (props[name] is not False or name in _KEPT_EMPTY)
    }


def _below(props: Object, convert: Callable[[Object], Object]) -> Object:
    shape: Object = {}
    if props.get("properties"):
        shape["properties"] = {name: convert(each) for name, each in sorted(props["properties"].items())}
    for name in ("items", "additionalProperties"):
        value: Any = props.get(name)
        if isinstance(value, dict):
            shape[name] = convert(value)
        elif name == "additionalProperties" and value is not None:
            shape[name] = value
    return shape


def _v3(props: Object) -> Object:
    shape = _known(props) | _below(props, _v3)
    for name in _JUNCTORS:
        if props.get(name):
            shape[name] = [_v3(each) for each in props[name]]
    if isinstance(props.get("not"), dict):
        shape["not"] = _v3(props["not"])
    return shape


def _v2(props: Object) -> Object:
    shape = _known(props)
    for name in ("default", "nullable", "x-kubernetes-validations"):
        shape.pop(name, None)
    if props.get("nullable"):  # v2 cannot say so: anything goes
        for name in ("type", "format", "items", "properties", "enum"):
            shape.pop(name, None)
        return {
            name: value for name, value in shape.items() if name == "description" or name.startswith("x-")
        }
    if props.get("x-kubernetes-preserve-unknown-fields"):
        if props.get("type") == "object":
            return {k: v for k, v in shape.items() if k not in {"required"}} | {}
        shape.pop("type", None)
        return shape
    return shape | _below(props, _v2)

"""Makes the schema that OpenAPI publishes for a definition's schema.

Source: apiextensions-apiserver pkg/controller/openapi/{builder/builder,v2/conversion}.go, 1.36. v3 says
everything; v2, with which clients validate, leaves out what it cannot say, often with all that is below.
"""

from typing import Any, Final

from kubeskew.apimachinery.objects import Object

_SCALARS: Final = (
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


def openapi(props: Object | None, *, v2: bool) -> Object:
    """Returns the published form of a root schema, to which apiVersion, kind and metadata are still to be
    added.

    Where nothing can be said it is just `{"type": "object"}`, and nothing may be added then.
    """
    if props is None or (v2 and props.get(_FREE)):
        return {"type": "object"}
    return _publish(props, v2)


def _publish(props: Object, v2: bool) -> Object:
    shape = {name: props[name] for name in _SCALARS if _says(name, props.get(name))}
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
    """Decides whether Go would write the field: zero values are left out, but for a default."""
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
    """Adds apiVersion, kind and metadata of an embedded resource; nothing stands beside a reference in v3."""
    reference: Object = {"$ref": _PREFIXES[v2] + _OBJECT_META}
    shape["properties"] = shape.get("properties", {}) | {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": reference if v2 else {"allOf": [reference]},
    }
    needed = shape.get("required", [])
    shape["required"] = [*needed, *(name for name in ("kind", "apiVersion") if name not in needed)]

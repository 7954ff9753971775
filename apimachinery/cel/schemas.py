"""Structural schemas as declared types.

Source: k8s.io/apiserver/pkg/cel/common/schemas.go and pkg/cel/limits.go, 1.36.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.declarations import Declared
from kubeskew.apimachinery.cel.names import escape

JSONSchema = Mapping[str, Any]

_REQUEST = 3 * 1024 * 1024  # the largest request in bytes
_DATE, _LEAST_TIME, _MOST_TIME, _LEAST_DURATION, _MOST_DURATION = 12, 21, 32, 3, 32
_TEXT_QUOTES, _BOOLEAN, _NUMBER = 2, 4, 1
_TEXT: JSONSchema = {"type": "string"}
_META: JSONSchema = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}


def declare(schema: JSONSchema, root: bool = False, name: str = "selfType") -> Declared | None:
    """Returns the declared type of a structural schema, None if expressions cannot see it.

    `root`: the schema is (or embeds) a resource, whose apiVersion, kind and names can always be seen. `name`
    begins the names of the object types in it.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(types.DYN, _most_characters(schema), smallest=1, schema=schema)
    if root:
        schema = _with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _array(schema, name)
        case "object":
            return _map(schema, name) if _values(schema) is not None else _object(schema, name)
        case "string":
            return _string(schema)
        case "boolean":
            return Declared(types.BOOL, smallest=_BOOLEAN, schema=schema)
        case "number":
            return Declared(types.DOUBLE, smallest=_NUMBER, schema=schema, plain=False)
        case "integer":
            return Declared(types.INT, smallest=_NUMBER, schema=schema)
    return None


def _values(schema: JSONSchema) -> JSONSchema | None:
    values = schema.get("additionalProperties")
    return values if isinstance(values, Mapping) else None


def _inner(schema: JSONSchema, name: str) -> Declared | None:
    return declare(schema, bool(schema.get("x-kubernetes-embedded-resource")), name)


def _array(schema: JSONSchema, name: str) -> Declared | None:
    items = schema.get("items")
    element = _inner(items, f"{name}.@idx") if isinstance(items, Mapping) else None
    if element is None:
        return None
    most = schema.get("maxItems")
    most = (_REQUEST - 2) // (element.smallest + 1) if most is None else max(most, 0)
    plain = element.plain and schema.get("x-kubernetes-list-type") not in ("map", "set")
    return Declared(
        types.list_of(element.type), most, element=element, smallest=2, schema=schema, plain=plain
    )


def _map(schema: JSONSchema, name: str) -> Declared | None:
    element = _inner(_values(schema) or {}, f"{name}.@elem")
    if element is None:
        return None
    most = schema.get("maxProperties")
    most = (_REQUEST - 2) // (element.smallest + 6) if most is None else max(most, 0)
    return Declared(
        types.map_of(types.STRING, element.type),
        most,
        key=Declared(types.STRING),
        element=element,
        smallest=2,
        schema=schema,
        plain=element.plain,
    )


def _object(schema: JSONSchema, name: str) -> Declared:
    fields: dict[str, Declared] = {}
    required = frozenset(schema.get("required") or ())
    smallest, plain = 2, not schema.get("x-kubernetes-preserve-unknown-fields")
    for property_name, below in (schema.get("properties") or {}).items():
        escaped = escape(property_name)
        declared = _inner(below, f"{name}.{escaped or property_name}")
        if declared is None:
            continue
        if escaped is not None:
            fields[escaped] = declared
            plain = plain and declared.plain and escaped == property_name and not below.get("nullable")
        if property_name in required and below.get("default") is None:
            smallest += len(property_name) + declared.smallest + 4
    kind = types.object_type(name, fields)
    return Declared(kind, 0, fields, smallest=smallest, schema=schema, plain=plain)


def _most_characters(schema: JSONSchema) -> int:
    most = schema.get("maxLength")
    return _REQUEST - 2 if most is None else max(most, 0) * 4


def _string(schema: JSONSchema) -> Declared:
    match schema.get("format"):
        case "byte":
            most = schema.get("maxLength")
            most = _REQUEST - 2 if most is None else max(most, 0)
            return Declared(types.BYTES, most, smallest=_TEXT_QUOTES, schema=schema, plain=False)
        case "duration":
            return Declared(
                types.DURATION, _MOST_DURATION, smallest=_LEAST_DURATION, schema=schema, plain=False
            )
        case "date":
            return Declared(types.TIMESTAMP, _DATE, smallest=_DATE, schema=schema, plain=False)
        case "date-time":
            return Declared(types.TIMESTAMP, _MOST_TIME, smallest=_LEAST_TIME, schema=schema, plain=False)
    most = _most_characters(schema)
    if schema.get("maxLength") is None and schema.get("enum"):
        most = max((len(value.encode()) for value in schema["enum"] if isinstance(value, str)), default=0)
    return Declared(types.STRING, most, smallest=_TEXT_QUOTES, schema=schema)


def _with_metadata(schema: JSONSchema) -> JSONSchema:
    properties = dict(schema.get("properties") or {})
    meta = (properties.get("metadata") or {}).get("properties") or {}
    complete = all((properties.get(name) or {}).get("type") == "string" for name in ("kind", "apiVersion"))
    if complete and all((meta.get(name) or {}).get("type") == "string" for name in ("name", "generateName")):
        return schema
    return {**schema, "properties": {**properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _META}}

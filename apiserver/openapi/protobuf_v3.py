"""Writes a v3 document as protobuf: gnostic's message `openapi.v3.Document`.

Field numbers: gnostic's OpenAPIv3.proto. Only what `v3` makes is encoded.
"""

from typing import Any

from kubeskew.apiserver.openapi.messages import (
    any_value,
    double,
    extensions,
    flag,
    message,
    named,
    numbers,
    text,
    texts,
)

Document = dict[str, Any]

_NUMBERS: dict[str, tuple[int, type]] = {
    "nullable": (1, bool), "title": (9, str), "multipleOf": (10, float), "maximum": (11, float),
    "exclusiveMaximum": (12, bool), "minimum": (13, float), "exclusiveMinimum": (14, bool),
    "maxLength": (15, int),
    "minLength": (16, int), "pattern": (17, str), "maxItems": (18, int), "minItems": (19, int),
    "uniqueItems": (20, bool), "maxProperties": (21, int), "minProperties": (22, int),
}  # fmt: skip
_JUNCTORS = {"allOf": 26, "oneOf": 27, "anyOf": 28}
_METHODS = {"get": 4, "put": 5, "post": 6, "delete": 7, "options": 8, "head": 9, "patch": 10}


def _schema(schema: Document) -> bytes:
    encoded = numbers(_NUMBERS, schema) + texts(23, schema.get("required", ()))
    encoded += b"".join(any_value(24, value) for value in schema.get("enum", ()))
    encoded += text(25, schema.get("type"))
    for name, field in _JUNCTORS.items():
        encoded += b"".join(message(field, _referred(each)) for each in schema.get(name, ()))
    if "not" in schema:
        encoded += message(29, _schema(schema["not"]))
    if "items" in schema:
        encoded += message(30, message(1, _referred(schema["items"])))
    if "properties" in schema:
        encoded += message(31, named(1, schema["properties"].items(), _referred))
    extra = schema.get("additionalProperties")
    if extra is not None:
        encoded += message(32, flag(2, extra) if isinstance(extra, bool) else message(1, _referred(extra)))
    if "default" in schema:
        encoded += message(33, _default(schema["default"]))
    encoded += text(34, schema.get("description")) + text(35, schema.get("format"))
    return encoded + extensions(36, schema)


def _referred(schema: Document) -> bytes:
    """Encodes SchemaOrReference."""
    if "$ref" in schema:
        return message(2, text(1, schema["$ref"]))
    return message(1, _schema(schema))


def _default(value: Any) -> bytes:
    """Encodes DefaultType, which has no objects and lists."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int | float):
        return double(1, value)
    return message(3, value.encode()) if isinstance(value, str) else b""


def _content(content: Document) -> bytes:
    return named(1, content.items(), lambda media: message(1, _referred(media["schema"])))


def _parameter(parameter: Document) -> bytes:
    """Encodes ParameterOrReference."""
    encoded = text(1, parameter["name"]) + text(2, parameter["in"]) + text(3, parameter.get("description"))
    return message(
        1, encoded + flag(4, parameter.get("required")) + message(10, _referred(parameter["schema"]))
    )


def _response(response: Document) -> bytes:
    encoded = text(1, response["description"])
    if "content" in response:
        encoded += message(3, _content(response["content"]))
    return message(1, encoded)


def _operation(operation: Document) -> bytes:
    encoded = texts(1, operation["tags"]) + text(3, operation.get("description"))
    encoded += text(5, operation["operationId"])
    encoded += b"".join(message(6, _parameter(parameter)) for parameter in operation.get("parameters", ()))
    body = operation.get("requestBody")
    if body is not None:
        encoded += message(
            7, message(1, message(2, _content(body["content"])) + flag(3, body.get("required")))
        )
    encoded += message(8, named(2, operation["responses"].items(), _response))
    return encoded + extensions(13, operation)


def _path(item: Document) -> bytes:
    encoded = b"".join(
        message(field, _operation(item[method])) for method, field in _METHODS.items() if method in item
    )
    return encoded + b"".join(message(13, _parameter(parameter)) for parameter in item.get("parameters", ()))


def _security_scheme(scheme: Document) -> bytes:
    """Encodes SecuritySchemeOrReference."""
    encoded = text(1, scheme["type"]) + text(2, scheme.get("description"))
    return message(1, encoded + text(3, scheme["name"]) + text(4, scheme["in"]))


def v3_protobuf(document: Document) -> bytes:
    """Returns the bytes of a document that `v3` made."""
    info, components = document["info"], document["components"]
    encoded = text(1, document["openapi"])
    encoded += message(2, text(1, info["title"]) + text(6, info["version"]))
    encoded += message(4, named(1, document["paths"].items(), _path))
    shared = b""
    if "schemas" in components:
        shared += message(1, named(1, components["schemas"].items(), _referred))
    if "securitySchemes" in components:
        shared += message(7, named(1, components["securitySchemes"].items(), _security_scheme))
    return encoded + (message(5, shared) if shared else b"")

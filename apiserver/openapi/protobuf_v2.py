"""Writes the v2 document as protobuf: gnostic's message `openapi.v2.Document`, which old clients need.

Field numbers: gnostic's OpenAPIv2.proto. Only what `v2` makes is encoded.
"""

from typing import Any

from kubeskew.apiserver.openapi.messages import (
    any_value,
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
    "format": (2, str), "title": (3, str), "description": (4, str), "multipleOf": (6, float),
    "maximum": (7, float), "exclusiveMaximum": (8, bool), "minimum": (9, float),
    "exclusiveMinimum": (10, bool),
    "maxLength": (11, int), "minLength": (12, int), "pattern": (13, str), "maxItems": (14, int),
    "minItems": (15, int), "uniqueItems": (16, bool), "maxProperties": (17, int), "minProperties": (18, int),
}  # fmt: skip


def _schema(schema: Document) -> bytes:
    encoded = text(1, schema.get("$ref")) + numbers(_NUMBERS, schema)
    if "default" in schema:
        encoded += any_value(5, schema["default"])
    encoded += texts(19, schema.get("required", ()))
    encoded += b"".join(any_value(20, value) for value in schema.get("enum", ()))
    extra = schema.get("additionalProperties")
    if extra is not None:
        encoded += message(21, flag(2, extra) if isinstance(extra, bool) else message(1, _schema(extra)))
    if "type" in schema:
        encoded += message(22, text(1, schema["type"]))
    if "items" in schema:
        encoded += message(23, message(1, _schema(schema["items"])))
    if "properties" in schema:
        encoded += message(25, named(1, schema["properties"].items(), _schema))
    return encoded + extensions(31, schema)


def _body_parameter(parameter: Document) -> bytes:
    encoded = (
        text(1, parameter.get("description"))
        + text(2, parameter["name"])
        + text(3, "body")
        + flag(4, parameter.get("required"))
    )
    return encoded + message(5, _schema(parameter["schema"]))


def _simple_parameter(parameter: Document) -> bytes:
    """Returns a path or query parameter; the two messages differ in the numbers after the name."""
    in_path = parameter["in"] == "path"
    encoded = flag(1, parameter.get("required")) + text(2, parameter["in"])
    encoded += text(3, parameter.get("description")) + text(4, parameter["name"])
    encoded += text(5 if in_path else 6, parameter["type"])
    encoded += flag(19 if in_path else 20, parameter.get("uniqueItems"))
    return message(4 if in_path else 3, encoded)


def _parameter(parameter: Document) -> bytes:
    if parameter["in"] == "body":
        return message(1, _body_parameter(parameter))
    return message(2, _simple_parameter(parameter))


def _used_parameter(parameter: Document) -> bytes:
    """Encodes a ParametersItem: a parameter, or a reference to a shared one."""
    if "$ref" in parameter:
        return message(2, text(1, parameter["$ref"]))
    return message(1, _parameter(parameter))


def _response(response: Document) -> bytes:
    encoded = text(1, response["description"])
    if "schema" in response:
        encoded += message(2, message(1, _schema(response["schema"])))
    return message(1, encoded)


def _operation(operation: Document) -> bytes:
    encoded = texts(1, operation["tags"]) + text(3, operation.get("description"))
    encoded += text(5, operation["operationId"])
    encoded += texts(6, operation.get("produces", ())) + texts(7, operation.get("consumes", ()))
    encoded += b"".join(message(8, _used_parameter(each)) for each in operation.get("parameters", ()))
    encoded += message(9, named(1, operation["responses"].items(), _response))
    return encoded + texts(10, operation["schemes"]) + extensions(13, operation)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _path(item: Document) -> bytes:
    encoded = b"".join(
        message(field, _operation(item[method])) for method, field in _METHODS.items() if method in item
    )
    return encoded + b"".join(message(9, _used_parameter(each)) for each in item.get("parameters", ()))


def _security_definition(definition: Document) -> bytes:
    key = (
        text(1, definition["type"])
        + text(2, definition["name"])
        + text(3, definition["in"])
        + text(4, definition.get("description"))
    )
    return message(2, key)


def v2_protobuf(document: Document) -> bytes:
    """Returns the bytes of a document that `v2` made."""
    info = document["info"]
    encoded = text(1, document["swagger"])
    encoded += message(2, text(1, info["title"]) + text(2, info["version"]))
    encoded += message(8, named(2, document["paths"].items(), _path))
    encoded += message(9, named(1, document["definitions"].items(), _schema))
    if "parameters" in document:
        encoded += message(10, named(1, document["parameters"].items(), _parameter))
    for requirement in document["security"]:
        encoded += message(12, named(1, requirement.items(), lambda scopes: texts(1, scopes)))
    return encoded + message(13, named(1, document["securityDefinitions"].items(), _security_definition))

"""OpenAPI documents as protobuf: gnostic's messages `openapi.v2.Document` and `openapi.v3.Document`.

Vendor extensions, enums and the like travel as YAML text; JSON is YAML.

Field numbers are those of gnostic's OpenAPIv2.proto and OpenAPIv3.proto. Only the fields of our documents are
encoded.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

Document = dict[str, Any]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_ONE_BYTE = 0x80
_V2_NUMBERS: dict[str, tuple[int, type]] = {
    "format": (2, str), "title": (3, str), "description": (4, str), "multipleOf": (6, float),
    "maximum": (7, float), "exclusiveMaximum": (8, bool), "minimum": (9, float),
    "exclusiveMinimum": (10, bool),
    "maxLength": (11, int), "minLength": (12, int), "pattern": (13, str), "maxItems": (14, int),
    "minItems": (15, int), "uniqueItems": (16, bool), "maxProperties": (17, int), "minProperties": (18, int),
}  # fmt: skip
_V3_NUMBERS: dict[str, tuple[int, type]] = {
    "nullable": (1, bool), "title": (9, str), "multipleOf": (10, float), "maximum": (11, float),
    "exclusiveMaximum": (12, bool), "minimum": (13, float), "exclusiveMinimum": (14, bool),
    "maxLength": (15, int),
    "minLength": (16, int), "pattern": (17, str), "maxItems": (18, int), "minItems": (19, int),
    "uniqueItems": (20, bool), "maxProperties": (21, int), "minProperties": (22, int),
}  # fmt: skip
_JUNCTORS = {"allOf": 26, "oneOf": 27, "anyOf": 28}
_V3_METHODS = {"get": 4, "put": 5, "post": 6, "delete": 7, "options": 8, "head": 9, "patch": 10}


def varint(number: int) -> bytes:
    """Each byte has seven bits of it; `number` is not negative."""
    encoded = bytearray()
    while number >= _ONE_BYTE:
        encoded.append(number & 0x7F | _ONE_BYTE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, value: str | None) -> bytes:
    return message(field, value.encode()) if value else b""


def texts(field: int, values: Iterable[str]) -> bytes:
    return b"".join(message(field, value.encode()) for value in values)


def flag(field: int, value: Any) -> bytes:
    return varint(field << 3 | _VARINT) + b"\x01" if value else b""


def double(field: int, value: float) -> bytes:
    """Zero is encoded too."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def numbers(places: Mapping[str, tuple[int, type]], holder: Document) -> bytes:
    """Encodes the scalars of a schema, each at its field with its type; Go leaves out zero values."""
    encoded = b""
    for name, (field, kind) in places.items():
        value = holder.get(name)
        if not value:
            continue
        if kind is str:
            encoded += text(field, value)
        elif kind is bool:
            encoded += flag(field, value)
        elif kind is float:
            encoded += double(field, value)
        else:
            encoded += varint(field << 3 | _VARINT) + varint(int(value))
    return encoded


def yaml(value: Any) -> bytes:
    """Encodes the message Any, whose value is YAML text."""
    return message(2, orjson.dumps(value) + b"\n")


def any_value(field: int, value: Any) -> bytes:
    return message(field, yaml(value))


def named(field: int, items: Iterable[tuple[str, Any]], encode: Callable[[Any], bytes]) -> bytes:
    """Maps are repeated messages of name and value, as gnostic has them."""
    return b"".join(message(field, text(1, name) + message(2, encode(value))) for name, value in items)


def extensions(field: int, holder: Document) -> bytes:
    extras = ((name, value) for name, value in holder.items() if name.startswith("x-"))
    return named(field, extras, yaml)


def _v2_schema(schema: Document) -> bytes:
    encoded = text(1, schema.get("$ref")) + numbers(_V2_NUMBERS, schema)
    if "default" in schema:
        encoded += any_value(5, schema["default"])
    encoded += texts(19, schema.get("required", ()))
    encoded += b"".join(any_value(20, value) for value in schema.get("enum", ()))
    extra = schema.get("additionalProperties")
    if extra is not None:
        encoded += message(21, flag(2, extra) if isinstance(extra, bool) else message(1, _v2_schema(extra)))
    if "type" in schema:
        encoded += message(22, text(1, schema["type"]))
    if "items" in schema:
        encoded += message(23, message(1, _v2_schema(schema["items"])))
    if "properties" in schema:
        encoded += message(25, named(1, schema["properties"].items(), _v2_schema))
    return encoded + extensions(31, schema)


def _body_parameter(parameter: Document) -> bytes:
    encoded = (
        text(1, parameter.get("description"))
        + text(2, parameter["name"])
        + text(3, "body")
        + flag(4, parameter.get("required"))
    )
    return encoded + message(5, _v2_schema(parameter["schema"]))


def _simple_parameter(parameter: Document) -> bytes:
    """Path and query parameters are two messages that differ in the numbers after the name."""
    in_path = parameter["in"] == "path"
    encoded = flag(1, parameter.get("required")) + text(2, parameter["in"])
    encoded += text(3, parameter.get("description")) + text(4, parameter["name"])
    encoded += text(5 if in_path else 6, parameter["type"])
    encoded += flag(19 if in_path else 20, parameter.get("uniqueItems"))
    return message(4 if in_path else 3, encoded)


def _v2_parameter(parameter: Document) -> bytes:
    if parameter["in"] == "body":
        return message(1, _body_parameter(parameter))
    return message(2, _simple_parameter(parameter))


def _used_parameter(parameter: Document) -> bytes:
    """Encodes a ParametersItem: a parameter, or a reference to a shared one."""
    if "$ref" in parameter:
        return message(2, text(1, parameter["$ref"]))
    return message(1, _v2_parameter(parameter))


def _v2_response(response: Document) -> bytes:
    encoded = text(1, response["description"])
    if "schema" in response:
        encoded += message(2, message(1, _v2_schema(response["schema"])))
    return message(1, encoded)


def _v2_operation(operation: Document) -> bytes:
    encoded = texts(1, operation["tags"]) + text(3, operation.get("description"))
    encoded += text(5, operation["operationId"])
    encoded += texts(6, operation.get("produces", ())) + texts(7, operation.get("consumes", ()))
    encoded += b"".join(message(8, _used_parameter(each)) for each in operation.get("parameters", ()))
    encoded += message(9, named(1, operation["responses"].items(), _v2_response))
    return encoded + texts(10, operation["schemes"]) + extensions(13, operation)


_V2_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _v2_path(item: Document) -> bytes:
    encoded = b"".join(
        message(field, _v2_operation(item[method])) for method, field in _V2_METHODS.items() if method in item
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
    info = document["info"]
    encoded = text(1, document["swagger"])
    encoded += message(2, text(1, info["title"]) + text(2, info["version"]))
    encoded += message(8, named(2, document["paths"].items(), _v2_path))
    encoded += message(9, named(1, document["definitions"].items(), _v2_schema))
    if "parameters" in document:
        encoded += message(10, named(1, document["parameters"].items(), _v2_parameter))
    for requirement in document["security"]:
        encoded += message(12, named(1, requirement.items(), lambda scopes: texts(1, scopes)))
    return encoded + message(13, named(1, document["securityDefinitions"].items(), _security_definition))


def _v3_schema(schema: Document) -> bytes:
    encoded = numbers(_V3_NUMBERS, schema) + texts(23, schema.get("required", ()))
    encoded += b"".join(any_value(24, value) for value in schema.get("enum", ()))
    encoded += text(25, schema.get("type"))
    for name, field in _JUNCTORS.items():
        encoded += b"".join(message(field, _referred(each)) for each in schema.get(name, ()))
    if "not" in schema:
        encoded += message(29, _v3_schema(schema["not"]))
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
    return message(1, _v3_schema(schema))


def _default(value: Any) -> bytes:
    """Encodes DefaultType, which has no objects and lists."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int | float):
        return double(1, value)
    return message(3, value.encode()) if isinstance(value, str) else b""


def _content(content: Document) -> bytes:
    return named(1, content.items(), lambda media: message(1, _referred(media["schema"])))


def _v3_parameter(parameter: Document) -> bytes:
    """Encodes ParameterOrReference."""
    encoded = text(1, parameter["name"]) + text(2, parameter["in"]) + text(3, parameter.get("description"))
    return message(
        1, encoded + flag(4, parameter.get("required")) + message(10, _referred(parameter["schema"]))
    )


def _v3_response(response: Document) -> bytes:
    encoded = text(1, response["description"])
    if "content" in response:
        encoded += message(3, _content(response["content"]))
    return message(1, encoded)


def _v3_operation(operation: Document) -> bytes:
    encoded = texts(1, operation["tags"]) + text(3, operation.get("description"))
    encoded += text(5, operation["operationId"])
    encoded += b"".join(message(6, _v3_parameter(parameter)) for parameter in operation.get("parameters", ()))
    body = operation.get("requestBody")
    if body is not None:
        encoded += message(
            7, message(1, message(2, _content(body["content"])) + flag(3, body.get("required")))
        )
    encoded += message(8, named(2, operation["responses"].items(), _v3_response))
    return encoded + extensions(13, operation)


def _v3_path(item: Document) -> bytes:
    encoded = b"".join(
        message(field, _v3_operation(item[method])) for method, field in _V3_METHODS.items() if method in item
    )
    return encoded + b"".join(
        message(13, _v3_parameter(parameter)) for parameter in item.get("parameters", ())
    )


def _security_scheme(scheme: Document) -> bytes:
    """Encodes SecuritySchemeOrReference."""
    encoded = text(1, scheme["type"]) + text(2, scheme.get("description"))
    return message(1, encoded + text(3, scheme["name"]) + text(4, scheme["in"]))


def v3_protobuf(document: Document) -> bytes:
    info, components = document["info"], document["components"]
    encoded = text(1, document["openapi"])
    encoded += message(2, text(1, info["title"]) + text(6, info["version"]))
    encoded += message(4, named(1, document["paths"].items(), _v3_path))
    shared = b""
    if "schemas" in components:
        shared += message(1, named(1, components["schemas"].items(), _referred))
    if "securitySchemes" in components:
        shared += message(7, named(1, components["securitySchemes"].items(), _security_scheme))
    return encoded + (message(5, shared) if shared else b"")

"""Writes the v2 document as protobuf: gnostic's message `openapi.v2.Document`, which old clients need.

Field numbers: gnostic's OpenAPIv2.proto. Only what `v2` makes is encoded. Vendor extensions, enums and
defaults travel as YAML text; JSON is YAML.
"""

from collections.abc import Callable, Iterable
from typing import Any

import orjson

Document = dict[str, Any]

PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_VARINT, _LENGTH = 0, 2
_ONE_BYTE = 0x80


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= _ONE_BYTE:
        encoded.append(number & 0x7F | _ONE_BYTE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(content)) + content


def _text(field: int, text: str | None) -> bytes:
    return _message(field, text.encode()) if text else b""


def _texts(field: int, texts: Iterable[str]) -> bytes:
    return b"".join(_message(field, text.encode()) for text in texts)


def _flag(field: int, value: Any) -> bytes:
    return _varint(field << 3 | _VARINT) + b"\x01" if value else b""


def _any(field: int, value: Any) -> bytes:
    return _message(field, _message(2, orjson.dumps(value) + b"\n"))


def _named(field: int, items: Iterable[tuple[str, Any]], encode: Callable[[Any], bytes]) -> bytes:
    """Returns a map as gnostic has it: repeated messages of name and value."""
    return b"".join(_message(field, _text(1, name) + _message(2, encode(value))) for name, value in items)


def _extensions(field: int, holder: Document) -> bytes:
    extras = ((name, value) for name, value in holder.items() if name.startswith("x-"))
    return _named(field, extras, lambda value: _message(2, orjson.dumps(value) + b"\n"))


def _schema(schema: Document) -> bytes:
    encoded = (
        _text(1, schema.get("$ref")) + _text(2, schema.get("format")) + _text(4, schema.get("description"))
    )
    if "default" in schema:
        encoded += _any(5, schema["default"])
    encoded += _flag(16, schema.get("uniqueItems")) + _texts(19, schema.get("required", ()))
    encoded += b"".join(_any(20, value) for value in schema.get("enum", ()))
    if "additionalProperties" in schema:
        encoded += _message(21, _message(1, _schema(schema["additionalProperties"])))
    if "type" in schema:
        encoded += _message(22, _text(1, schema["type"]))
    if "items" in schema:
        encoded += _message(23, _message(1, _schema(schema["items"])))
    if "properties" in schema:
        encoded += _message(25, _named(1, schema["properties"].items(), _schema))
    return encoded + _extensions(31, schema)


def _body_parameter(parameter: Document) -> bytes:
    encoded = _text(2, parameter["name"]) + _text(3, "body") + _flag(4, parameter.get("required"))
    return encoded + _message(5, _schema(parameter["schema"]))


def _simple_parameter(parameter: Document) -> bytes:
    """Returns a path or query parameter; the two messages differ in the numbers after the name."""
    in_path = parameter["in"] == "path"
    encoded = _flag(1, parameter.get("required")) + _text(2, parameter["in"]) + _text(4, parameter["name"])
    encoded += _text(5 if in_path else 6, parameter["type"])
    encoded += _flag(19 if in_path else 20, parameter.get("uniqueItems"))
    return _message(4 if in_path else 3, encoded)


def _parameter(parameter: Document) -> bytes:
    if parameter["in"] == "body":
        return _message(1, _body_parameter(parameter))
    return _message(2, _simple_parameter(parameter))


def _used_parameter(parameter: Document) -> bytes:
    """Encodes a ParametersItem: a parameter, or a reference to a shared one."""
    if "$ref" in parameter:
        return _message(2, _text(1, parameter["$ref"]))
    return _message(1, _parameter(parameter))


def _response(response: Document) -> bytes:
    encoded = _text(1, response["description"])
    if "schema" in response:
        encoded += _message(2, _message(1, _schema(response["schema"])))
    return _message(1, encoded)


def _operation(operation: Document) -> bytes:
    encoded = _texts(1, operation["tags"]) + _text(5, operation["operationId"])
    encoded += _texts(6, operation["produces"]) + _texts(7, operation.get("consumes", ()))
    encoded += b"".join(_message(8, _used_parameter(each)) for each in operation.get("parameters", ()))
    encoded += _message(9, _named(1, operation["responses"].items(), _response))
    return encoded + _texts(10, operation["schemes"]) + _extensions(13, operation)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _path(item: Document) -> bytes:
    encoded = b"".join(
        _message(field, _operation(item[method])) for method, field in _METHODS.items() if method in item
    )
    return encoded + b"".join(_message(9, _used_parameter(each)) for each in item.get("parameters", ()))


def _security_definition(definition: Document) -> bytes:
    key = _text(1, definition["type"]) + _text(2, definition["name"]) + _text(3, definition["in"])
    return _message(2, key)


def v2_protobuf(document: Document) -> bytes:
    """Returns the bytes of a document that `v2` made."""
    info = document["info"]
    encoded = _text(1, document["swagger"])
    encoded += _message(2, _text(1, info["title"]) + _text(2, info["version"]))
    encoded += _message(8, _named(2, document["paths"].items(), _path))
    encoded += _message(9, _named(1, document["definitions"].items(), _schema))
    if "parameters" in document:
        encoded += _message(10, _named(1, document["parameters"].items(), _parameter))
    for requirement in document["security"]:
        encoded += _message(12, _named(1, requirement.items(), lambda scopes: _texts(1, scopes)))
    return encoded + _message(13, _named(1, document["securityDefinitions"].items(), _security_definition))

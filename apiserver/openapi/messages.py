"""Writes parts of protobuf messages as gnostic has them for OpenAPI.

Vendor extensions, enums and the like travel as YAML text; JSON is YAML.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

Document = dict[str, Any]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_ONE_BYTE = 0x80


def varint(number: int) -> bytes:
    """Returns a number that is not negative, seven bits a byte."""
    encoded = bytearray()
    while number >= _ONE_BYTE:
        encoded.append(number & 0x7F | _ONE_BYTE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def message(field: int, content: bytes) -> bytes:
    """Returns a field that is a message, or any bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, value: str | None) -> bytes:
    """Returns a field with a text; nothing for an empty one."""
    return message(field, value.encode()) if value else b""


def texts(field: int, values: Iterable[str]) -> bytes:
    """Returns a repeated field with texts."""
    return b"".join(message(field, value.encode()) for value in values)


def flag(field: int, value: Any) -> bytes:
    """Returns a boolean field; nothing for false."""
    return varint(field << 3 | _VARINT) + b"\x01" if value else b""


def double(field: int, value: float) -> bytes:
    """Returns a field with a floating point number, zero too."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def numbers(places: Mapping[str, tuple[int, type]], holder: Document) -> bytes:
    """Returns the scalars of a schema, each at its field with its type; what Go leaves out is not there."""
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
    """Returns the message Any of a value."""
    return message(2, orjson.dumps(value) + b"\n")


def any_value(field: int, value: Any) -> bytes:
    """Returns a field with any value, as YAML."""
    return message(field, yaml(value))


def named(field: int, items: Iterable[tuple[str, Any]], encode: Callable[[Any], bytes]) -> bytes:
    """Returns a map as gnostic has it: repeated messages of name and value."""
    return b"".join(message(field, text(1, name) + message(2, encode(value))) for name, value in items)


def extensions(field: int, holder: Document) -> bytes:
    """Returns the vendor extensions of a schema or operation."""
    extras = ((name, value) for name, value in holder.items() if name.startswith("x-"))
    return named(field, extras, yaml)

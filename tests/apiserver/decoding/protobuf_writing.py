"""Protobuf as Go writes it, for tests: only the table of numbers is shared with the code under test."""

import base64
import json
import struct
from datetime import UTC, datetime
from typing import Any

from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.decoding.protobuf import messages

MAGIC = b"k8s\x00"
SECONDS = {"1m30s": 90}  # the durations that tests use


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | str | int | float) -> bytes:
    """One field: a number as a varint, a float as a double, text or a message with its length."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """A whole body."""
    meta = field(1, api_version) + field(2, kind)
    return MAGIC + field(1, meta) + field(2, raw) + field(3, "") + field(4, "")


def message(value: dict[str, Any], schema: Schema, name: str = "") -> bytes:
    """The message of a struct; `name` is the type whose numbers count, of an embedded one for example."""
    name = name or schema.name
    out = b""
    for number, key in messages.fields_of(name).items():
        if key in value:
            out += _field(number, value[key], schema.fields[key].schema, schema)
    for number, embedded in messages.embedded_in(name).items():
        out += field(number, message(value, schema, embedded))
    return out


def _field(number: int, value: Any, schema: Schema, owner: Schema) -> bytes:
    if schema.kind is Kind.LIST and schema.items is not None:
        return b"".join(field(number, _one(item, schema.items, owner)) for item in value)
    if schema.kind is Kind.MAP and schema.items is not None:
        items = schema.items
        return b"".join(
            field(number, field(1, key) + field(2, _one(item, items, owner))) for key, item in value.items()
        )
    return field(number, _one(value, schema, owner))


def _one(value: Any, schema: Schema, owner: Schema) -> bytes | str | int | float:
    match schema.kind:
        case Kind.OBJECT:
            return message(value, schema)
        case Kind.LIST if schema.items is not None:
            return b"".join(field(1, _one(item, schema.items, owner)) for item in value)
        case Kind.STRING:
            return _text(value, schema.format)
        case Kind.NUMBER:
            return float(value)
        case Kind.QUANTITY:
            return field(1, value)
        case Kind.INT_OR_STRING:
            as_text = isinstance(value, str)
            return (
                field(1, int(as_text))
                + field(2, 0 if as_text else value)
                + field(3, value if as_text else "")
            )
        case Kind.ANY if schema.name in messages.SCHEMA_UNIONS:
            return _alternatives(value, owner)
        case Kind.ANY:
            return field(1, json.dumps(value))
        case _:
            return int(value)


def _alternatives(value: Any, owner: Schema) -> bytes:
    """One of the things that a schema may say in one place; `owner` is the schema's own type."""
    if isinstance(value, bool):
        return field(1, int(value))
    if isinstance(value, list):
        return b"".join(field(2, item if isinstance(item, str) else message(item, owner)) for item in value)
    return field(1, message(value, owner))


def _text(value: str, form: str) -> bytes | str:
    if form == "byte":
        return base64.b64decode(value)
    if form == "duration":
        return field(1, SECONDS[value] * 10**9)
    if form not in {"date-time", "micro-time"}:
        return value
    moment = datetime.fromisoformat(value)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since.days * 86400 + since.seconds
    return field(1, seconds) + field(2, since.microseconds * 1000)

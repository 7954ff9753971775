"""Objects of built-in kinds in protobuf, as typed Go clients send them: read along the schema, into JSON.

The envelope is `k8s\\0` and a `runtime.Unknown`. Field numbers stand in `data/protobuf.json` (made by
`hack/generate_protobuf.py`); everything else follows from the schema. Nothing here writes protobuf: a client
that sends it takes JSON back.
"""

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from apimachinery.clock import micro_timestamp, timestamp
from apimachinery.schema import Kind, Schema

MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NUMBERS = Path(__file__).parent / "data" / "protobuf.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Wire = int | bytes


class ProtobufError(ValueError):
    """The body is not what it should be; the text is Go's."""


@cache
def _tables() -> Mapping[str, Mapping[str, str | list[str]]]:
    tables: Mapping[str, Mapping[str, str | list[str]]] = json.loads(_NUMBERS.read_bytes())
    return tables


def is_known(schema: Schema) -> bool:
    """Whether the numbers of a kind are known (not of kinds that ended before the release they are from)."""
    return schema.name in _tables()


def kind_of(body: bytes) -> tuple[str, str]:
    """apiVersion and kind as the envelope tells them. Raises ProtobufError."""
    return _envelope(body)[:2]


def decode(body: bytes, schema: Schema) -> dict[str, Any]:
    """The JSON of the object in `body`, which is of `schema`, with its apiVersion and kind."""
    api_version, kind, raw = _envelope(body)
    return {"apiVersion": api_version, "kind": kind, **_message(raw, schema, schema.name)}


def _envelope(body: bytes) -> tuple[str, str, bytes]:
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    fields = dict(_fields(body[len(MAGIC) :]))
    meta = dict(_fields(_data(fields.get(1, b""))))
    return _text(meta.get(1, b"")), _text(meta.get(2, b"")), _data(fields.get(2, b""))


# --- the wire ----------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """Number and value of each field: an integer, or the bytes of what has a length or a fixed size."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + size > end:
            raise ProtobufError("unexpected EOF")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ProtobufError("proto: integer overflow")
    raise ProtobufError("unexpected EOF")


def _data(value: Wire) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType = 0")
    return value


def _text(value: Wire) -> str:
    return _data(value).decode("utf-8", "replace")


def _signed(value: Wire) -> int:
    if not isinstance(value, int):
        raise ProtobufError("proto: wrong wireType = 2")
    return value - (1 << 64) if value >= 1 << 63 else value


# --- along the schema --------------------------------------------------------------------------------------


def _message(data: bytes, schema: Schema, name: str) -> dict[str, Any]:
    """A struct. An embedded one has numbers of its own, and its fields are those of the struct around it."""
    numbers = _tables().get(name)
    if numbers is None:
        raise ProtobufError(f"no protobuf numbers are known of {name}")
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        entry = numbers.get(str(number))
        if entry is None:
            continue
        field, embedded = (entry, "") if isinstance(entry, str) else (entry[0], entry[1])
        if field not in schema.fields:
            field = _spelled(field, schema)
        known = schema.fields.get(field)
        if known is not None:
            _put(found, field, value, known.schema)
        elif embedded:
            found |= _message(_data(value), schema, embedded)
    return found


def _spelled(field: str, schema: Schema) -> str:
    """The JSON name of a field whose protobuf name differs in case (`uID`, `Webhooks`)."""
    return next((name for name in schema.fields if name.lower() == field.lower()), field)


def _put(found: dict[str, Any], field: str, value: Wire, schema: Schema) -> None:
    items = schema.items
    if schema.kind is Kind.LIST and schema.format != "byte" and items is not None:
        found.setdefault(field, []).append(_value(value, items))
    elif schema.kind is Kind.MAP and items is not None:
        entry = dict(_fields(_data(value)))
        found.setdefault(field, {})[_text(entry.get(1, b""))] = _map_value(entry.get(2), items)
    else:
        found[field] = _value(value, schema)


def _map_value(value: Wire | None, schema: Schema) -> Any:
    if value is None:
        return _value(0 if schema.kind in {Kind.INTEGER, Kind.BOOLEAN} else b"", schema)
    if schema.kind is Kind.LIST and schema.items is not None:  # a list in a map is a message of `items`
        items = schema.items
        return [_value(one, items) for number, one in _fields(_data(value)) if number == 1]
    return _value(value, schema)


def _value(value: Wire, schema: Schema) -> Any:
    match schema.kind:
        case Kind.OBJECT:
            return _message(_data(value), schema, schema.name)
        case Kind.STRING:
            return _string(value, schema.format)
        case Kind.INTEGER:
            return _signed(value)
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.NUMBER:
            return struct.unpack("<d", _data(value))[0]
        case Kind.QUANTITY:
            return _text(dict(_fields(_data(value))).get(1, b""))
        case Kind.INT_OR_STRING:
            return _int_or_string(_data(value))
        case _:
            return _raw(_data(value))


def _string(value: Wire, kind: str) -> Any:
    data = _data(value)
    if kind == "byte":
        return base64.b64encode(data).decode()
    if kind in {"date-time", "micro-time"}:
        return _moment(data, micro=kind == "micro-time")
    if kind == "duration":
        return f"{_signed(dict(_fields(data)).get(1, 0)) / 1e9:g}s"
    return data.decode("utf-8", "replace")


def _moment(data: bytes, *, micro: bool) -> str | None:
    """A time; an empty message is Go's zero time, which JSON writes as null."""
    if not data:
        return None
    fields = dict(_fields(data))
    seconds, nanos = _signed(fields.get(1, 0)), _signed(fields.get(2, 0))
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return micro_timestamp(moment) if micro else timestamp(moment)


def _int_or_string(data: bytes) -> int | str:
    fields = dict(_fields(data))
    return _text(fields.get(3, b"")) if fields.get(1, 0) else _signed(fields.get(2, 0))


def _raw(data: bytes) -> Any:
    """What is JSON in protobuf too: RawExtension, FieldsV1."""
    raw = _data(dict(_fields(data)).get(1, b""))
    try:
        return json.loads(raw) if raw else None
    except ValueError as error:
        raise ProtobufError(f"the raw value is not JSON: {error}") from None

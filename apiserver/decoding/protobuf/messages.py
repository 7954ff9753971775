"""Protobuf messages of built-in types: wire format, field numbers, values, and structs along the schema.

Errors are those of the Unmarshal methods that Kubernetes generates for its types (1.36).

`numbers.json` (made by `hack/catalogue/protobuf_numbers.py`): {definition name: {JSON name: number}}. A key
`=definition name` is an embedded message: in JSON, its fields are those of the struct around it. Preview
releases bring numbers of their own, which are guesses; imported ones have a table of their own.

Lists and maps come one element a token. A message that comes twice is merged, of other values the last
counts, packed lists are read too: all as in Go.

Source: k8s.io/apimachinery (time_proto.go, quantity, intstr, runtime) and apiextensions' marshal.go, 1.36.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from math import isfinite
from pathlib import Path
from struct import unpack
from typing import Any, Final, NamedTuple

import orjson

from kubeskew.apimachinery.catalogue.data import copied_definitions, preview_numbers
from kubeskew.apimachinery.clock import micro_timestamp, timestamp
from kubeskew.apimachinery.go_formats import duration_text
from kubeskew.apimachinery.golang.raw_extensions import RAW, with_text
from kubeskew.apimachinery.imported_releases import document
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, wrap
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.decoding.go_json import load_repeated

VARINT, FIXED64, BYTES, GROUP_START, GROUP_END, FIXED32 = range(6)
_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_MAX_SHIFT = 63
_MANY: Final = 1 << 29  # protobuf has no such field numbers
_64_BITS = (1 << 64) - 1
_TRUNCATED = "unexpected EOF"
_DATA = Path(__file__).with_name("numbers.json")
_EMBEDDED = "="
_TYPE_META: Final = {
    "apiVersion",
    "kind",
}  # are in the envelope; Go loses those of an object inside another, too
_KEPT: Final = 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)  # Go's, sent as such or as an empty message
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA_UNIONS: Final = frozenset(
    f"{_APIEXTENSIONS}JSONSchemaPropsOr{what}" for what in ("Array", "Bool", "StringArray")
)


class WireError(ValueError):
    """A body that Go could not read either; the text is Go's."""


class Token(NamedTuple):
    """`value` is an integer for VARINT, else the bytes of the payload."""

    number: int
    wire_type: int
    value: int | bytes


_token: Final = Token._make


def tokens(data: bytes, message: str) -> Iterator[Token]:
    """Fields come in the order of `data`, without groups. `message` names the Go type in errors."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        short = wire_type == BYTES and 0 < number < _MANY and at < end and data[at] < 0x80
        if short and at + (size := data[at]) < end:
            at += 1  # most fields by far: a short text or message
            yield _token((number, BYTES, data[at : at + size]))
            at += size
            continue
        _check(number, wire_type, message)
        if wire_type == GROUP_START:
            at = _skip_group(data, at)
            continue
        value, at = _payload(data, at, wire_type)
        yield Token(number, wire_type, value)


def _check(number: int, wire_type: int, message: str) -> None:
    if wire_type == GROUP_END:
        raise WireError(f"proto: {message}: wiretype end group for non-group")
    if not 0 < number < 1 << 31:
        raise WireError(f"proto: {message}: illegal tag {wrap(number, 32)} (wire type {wire_type})")


def _payload(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type == VARINT:
        return read_varint(data, at)
    if wire_type == BYTES:
        size, at = read_varint(data, at)
        if size > _64_BITS >> 1:
            raise WireError("proto: negative length found during unmarshaling")
    elif wire_type in _SIZES:
        size = _SIZES[wire_type]
    else:
        raise WireError(f"proto: illegal wireType {wire_type}")
    if at + size > len(data):
        raise WireError(_TRUNCATED)
    return data[at : at + size], at + size


def _skip_group(data: bytes, at: int) -> int:
    """Skips a group that began before `at`. Groups nest; they do not use the stack."""
    depth = 1
    while depth:
        tag, at = read_varint(data, at)
        wire_type = tag & 7
        if wire_type == GROUP_START:
            depth += 1
        elif wire_type == GROUP_END:
            depth -= 1
        else:
            _, at = _payload(data, at, wire_type)
    return at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number is unsigned and has 64 bits; the second one is the position after it."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise WireError("proto: integer overflow")
    raise WireError(_TRUNCATED)


def varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


def double(data: bytes) -> float:
    """Refuses infinity and NaN, which JSON does not have."""
    number: float = unpack("<d", data)[0]
    if not isfinite(number):
        raise WireError("json: unsupported value")
    return number


def text(data: bytes) -> str:
    """Bytes that are not UTF-8 become U+FFFD, as in the JSON that Go would write."""
    return data.decode("utf-8", "replace")


Numbers = Mapping[str, Mapping[str, int]]


@cache
def load_numbers() -> Numbers:
    table: dict[str, dict[str, int]] = orjson.loads(_DATA.read_bytes())
    for new, old in copied_definitions().items():
        for name in [name for name in table if name.startswith(old)]:
            numbers = {key.replace(old, new): number for key, number in table[name].items()}
            table[new + name.removeprefix(old)] = numbers
    for name, numbers in preview_numbers().items():
        table[name] = table.get(name, {}) | numbers
    return table


def numbers_at(name: str, own: Numbers | None) -> Mapping[str, int]:
    """`own` is the table of an imported release, which lies over the one of all others."""
    return own[name] if own is not None and name in own else load_numbers().get(name, {})


def _numbers_of(name: str, release: str) -> Mapping[str, int]:
    """`release` is that of a schema, which has one if it is imported."""
    return numbers_at(name, document(release, _DATA.name) if release else None)


@lru_cache(maxsize=_KEPT)
def is_known(schema: Schema) -> bool:
    """True if objects of the type can be read without losing a field; never for custom resources."""
    return schema.kind is Kind.OBJECT and not any(True for _ in unnumbered(schema))


def unnumbered(schema: Schema) -> Iterator[str]:
    """Goes through the type and all types in it; a field is named `definition.field`."""
    todo, seen = [schema], {schema}
    while todo:
        current = todo.pop()
        if current.kind is Kind.OBJECT and current.fields:
            missing = current.fields.keys() - numbered(current.name, current.release)
            missing = missing - _TYPE_META if missing >= _TYPE_META else missing
            yield from (f"{current.name}.{field}" for field in sorted(missing))
        inner = [field.schema for field in current.fields.values()]
        for other in [*inner, *([current.items] if current.items is not None else [])]:
            if other not in seen:
                seen.add(other)
                todo.append(other)


def numbered(name: str, release: str = "") -> set[str]:
    """Fields of embedded messages are included, by their JSON names."""
    embedded = (numbered(other, release) for other in embedded_in(name, release).values())
    return set(fields_of(name, release).values()).union(*embedded)


def fields_of(name: str, release: str = "") -> dict[int, str]:
    """Numbers lead to JSON names; embedded messages are left out."""
    numbers = _numbers_of(name, release)
    return {number: key for key, number in numbers.items() if not key.startswith(_EMBEDDED)}


def embedded_in(name: str, release: str = "") -> dict[int, str]:
    """Numbers lead to the definition names of the embedded messages."""
    return {
        number: key.removeprefix(_EMBEDDED)
        for key, number in _numbers_of(name, release).items()
        if key.startswith(_EMBEDDED)
    }


class Codec(NamedTuple):
    """`read` takes a payload of the wire type; `zero` is the value of a map's entry that has none."""

    wire_type: int
    read: Callable[[Any], Any]
    zero: Callable[[], Any]


def codec(schema: Schema) -> Codec:
    match schema.kind:
        case Kind.STRING:
            return _TEXTS.get(schema.format, _STRING)
        case Kind.INTEGER:
            bits = 32 if schema.format == "int32" else 64
            return Codec(VARINT, lambda number: wrap(number, bits), int)
        case Kind.BOOLEAN:
            return Codec(VARINT, bool, bool)
        case Kind.NUMBER:
            return Codec(FIXED64, double, float)
        case Kind.QUANTITY:
            return Codec(BYTES, quantity, lambda: "0")
        case Kind.INT_OR_STRING:
            return Codec(BYTES, int_or_string, int)
        case _:
            return Codec(BYTES, raw_extension if schema.name == RAW else raw_json, _nothing)


def _nothing() -> None:
    return None


def _field(data: bytes, number: int, default: Any, wire_type: int = VARINT) -> Any:
    """Of a field that is repeated, the last value counts."""
    found: Token | None = None
    for token in tokens(data, "message"):
        if token.number == number:
            found = token
    if found is None:
        return default
    if found.wire_type != wire_type:
        raise WireError(f"proto: wrong wireType = {found.wire_type} for field {number}")
    return found.value


def time(data: bytes) -> str | None:
    """The text is RFC 3339 in seconds; None for Go's zero time, which is an empty message."""
    moment = _moment(data, nanoseconds=False)
    return None if moment is None else timestamp(moment)


def micro_time(data: bytes) -> str | None:
    """The text is RFC 3339 in microseconds; None for Go's zero time."""
    moment = _moment(data, nanoseconds=True)
    return None if moment is None else micro_timestamp(moment)


def _moment(data: bytes, *, nanoseconds: bool) -> datetime | None:
    if not data:
        return None
    nanos = wrap(_field(data, 2, 0), 32) if nanoseconds else 0
    try:
        moment = _EPOCH + timedelta(seconds=wrap(_field(data, 1, 0)), microseconds=nanos // 1000)
    except OverflowError:
        raise WireError("Time.MarshalJSON: year outside of range [0,9999]") from None
    return None if moment == _ZERO_TIME else moment


def duration(data: bytes) -> str:
    """Writes a metav1.Duration as Go does: `1h2m3.5s`, `100ms`, `0s`."""
    return duration_text(wrap(_field(data, 1, 0)))


def quantity(data: bytes) -> str:
    """An unset quantity is 0; raises WireError for a text that is none."""
    sent = _field(data, 1, None, BYTES)
    if sent is None:
        return "0"
    try:
        Quantity.parse(text(sent))
    except ValueError as error:
        raise WireError(str(error)) from None
    return text(sent)


def int_or_string(data: bytes) -> int | str:
    """Its type is in field 1 (0 is a number, 1 a string), the values in a field each."""
    kind = wrap(_field(data, 1, 0))
    if kind == 0:
        return wrap(_field(data, 2, 0), 32)
    if kind == 1:
        return text(_field(data, 3, b"", BYTES))
    raise WireError("impossible IntOrString.Type")


def raw_json(data: bytes) -> Any:
    """None if the RawExtension, FieldsV1 or JSON is empty."""
    sent = _field(data, 1, b"", BYTES)
    if not sent:
        return None
    try:
        return load_repeated(sent)
    except ValueError as error:
        raise WireError(f"raw JSON: {error}") from None


def raw_extension(data: bytes) -> Any:
    """Reads like `raw_json`, but a RawExtension keeps its bytes."""
    value = raw_json(data)
    return with_text(value, _field(data, 1, b"", BYTES)) if isinstance(value, dict) else value


def schema_union(name: str, read_schema: Callable[[bytes], Any]) -> Codec:
    def alternatives(data: bytes) -> Any:
        """Reads the list if there is one, else the schema, else the boolean, else null."""
        if name.endswith("OrBool"):
            sent = _field(data, 2, None, BYTES)
            return read_schema(sent) if sent is not None else bool(_field(data, 1, 0))
        several = [token.value for token in tokens(data, "JSONSchemaProps") if token.number == 2]
        if any(isinstance(part, int) for part in several):
            raise WireError("proto: wrong wireType = 0 for field JSONSchemas")
        if several:
            read = text if name.endswith("StringArray") else read_schema
            return [read(part) for part in several if isinstance(part, bytes)]
        sent = _field(data, 1, None, BYTES)
        return None if sent is None else read_schema(sent)

    return Codec(BYTES, alternatives, _nothing)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_STRING: Final = Codec(BYTES, text, str)
_TEXTS: Final = {
    "byte": Codec(BYTES, _base64, str),
    "date-time": Codec(BYTES, time, _nothing),
    "micro-time": Codec(BYTES, micro_time, _nothing),
    "duration": Codec(BYTES, duration, lambda: "0s"),
}


Setter = Callable[[Object, Token], None]  # puts a token's value into the struct around it

_KEPT_AS_SENT: Final = 4096
_KEY, _VALUE, _ITEMS = (
    1,
    2,
    1,
)  # of a map's entry; of a list that is a map's value (authorization's ExtraValue)


def read(data: bytes, schema: Schema) -> Object:
    """Raises WireError."""
    found: Object = {}
    _read_into(found, data, schema, schema.name)
    return found


def _read_into(found: Object, data: bytes, schema: Schema, name: str) -> None:
    """Numbers are those of the type `name`, names those of `schema`: they differ for embedded messages."""
    setters = _setters(schema, name)
    for token in tokens(data, _go_name(name)):
        setter = setters.get(token.number)
        if setter is not None:
            setter(found, token)


def _go_name(name: str) -> str:
    return name.rpartition(".")[2]


@lru_cache(maxsize=_KEPT_AS_SENT)
def _setters(schema: Schema, name: str) -> Mapping[int, Setter]:
    """Fields that an older release's schema does not have get no setter: they are skipped."""
    setters: dict[int, Setter] = {}
    for number, field in fields_of(name, schema.release).items():
        if field in schema.fields:
            setters[number] = _setter(field, schema.fields[field].schema, schema)
    for number, embedded in embedded_in(name, schema.release).items():
        setters[number] = _embedded(schema, embedded)
    return setters


def _embedded(schema: Schema, name: str) -> Setter:
    def put(found: Object, token: Token) -> None:
        _read_into(found, _message_payload(token, _go_name(name)), schema, name)

    return put


def _setter(field: str, schema: Schema, owner: Schema) -> Setter:
    if schema.kind is Kind.OBJECT:
        return _struct(field, schema)
    if schema.kind is Kind.MAP and schema.items is not None:
        return _map(field, schema.items, owner)
    if schema.kind is Kind.LIST and schema.items is not None:
        return _list(field, schema.items, owner)
    codec = _codec(schema, owner)

    def put(found: Object, token: Token) -> None:
        found[field] = _one(codec, token, field)

    return put


def _struct(field: str, schema: Schema) -> Setter:
    def put(found: Object, token: Token) -> None:
        _read_into(found.setdefault(field, {}), _message_payload(token, field), schema, schema.name)

    return put


def _list(field: str, items: Schema, owner: Schema) -> Setter:
    codec = _codec(items, owner)

    def put(found: Object, token: Token) -> None:
        several = found.setdefault(field, [])
        if codec.wire_type == VARINT and token.wire_type == BYTES:
            several += [codec.read(number) for number in varints(_message_payload(token, field))]
        else:
            several.append(_one(codec, token, field))

    return put


def _map(field: str, items: Schema, owner: Schema) -> Setter:
    codec = _codec(items, owner)

    def put(found: Object, token: Token) -> None:
        key, value = "", codec.zero()
        for part in tokens(_message_payload(token, field), _go_name(owner.name)):
            if part.number == _KEY:
                key = text(_message_payload(part, field))
            elif part.number == _VALUE:
                value = _one(codec, part, field)
        found.setdefault(field, {})[key] = value

    return put


def _one(codec: Codec, token: Token, field: str) -> Any:
    if token.wire_type != codec.wire_type:
        raise _wrong(token, field)
    return codec.read(token.value)


def _message_payload(token: Token, field: str) -> bytes:
    if token.wire_type != BYTES or isinstance(token.value, int):
        raise _wrong(token, field)
    return token.value


def _wrong(token: Token, field: str) -> WireError:
    go_name = field[:1].upper() + field[1:]
    return WireError(f"proto: wrong wireType = {token.wire_type} for field {go_name}")


def _codec(schema: Schema, owner: Schema) -> Codec:
    """`owner` is the struct that the type is in."""
    match schema.kind:
        case Kind.OBJECT:
            return Codec(BYTES, lambda data: read(data, schema), lambda: read(b"", schema))
        case Kind.LIST if schema.items is not None:
            return _wrapped_list(_codec(schema.items, owner))
        case Kind.ANY if schema.name in SCHEMA_UNIONS:
            return schema_union(schema.name, lambda data: read(data, owner))
        case _:
            return codec(schema)


def _wrapped_list(items: Codec) -> Codec:
    def several(data: Any) -> list[Any]:
        return [_one(items, token, "items") for token in tokens(data, "ExtraValue") if token.number == _ITEMS]

    return Codec(BYTES, several, list)

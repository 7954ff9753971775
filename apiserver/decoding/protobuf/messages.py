"""Reads messages along a schema: each struct type is turned once into readers by field number.

Lists and maps come one element a token. A message that comes twice is merged, of other values the last
counts, packed lists are read too: all as in Go.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.decoding.protobuf import numbers, values
from kubeskew.apiserver.decoding.protobuf.values import Codec
from kubeskew.apiserver.decoding.protobuf.wire import BYTES, VARINT, Token, WireError, text, tokens, varints

Setter = Callable[[Object, Token], None]  # puts a token's value into the struct around it

_KEPT: Final = 4096
_KEY, _VALUE, _ITEMS = (
    1,
    2,
    1,
)  # of a map's entry; of a list that is a map's value (authorization's ExtraValue)


def read(data: bytes, schema: Schema) -> Object:
    """Returns the struct in `data`; raises WireError."""
    found: Object = {}
    _read_into(found, data, schema, schema.name)
    return found


def _read_into(found: Object, data: bytes, schema: Schema, name: str) -> None:
    """Add the fields in `data`, numbered as those of the type `name`, to a struct of `schema`."""
    setters = _setters(schema, name)
    for token in tokens(data, _go_name(name)):
        setter = setters.get(token.number)
        if setter is not None:
            setter(found, token)


def _go_name(name: str) -> str:
    return name.rpartition(".")[2]


@lru_cache(maxsize=_KEPT)
def _setters(schema: Schema, name: str) -> Mapping[int, Setter]:
    """Makes one setter per field that the schema has; a schema of an older release does not know them all."""
    setters: dict[int, Setter] = {}
    for number, field in numbers.fields_of(name).items():
        if field in schema.fields:
            setters[number] = _setter(field, schema.fields[field].schema, schema)
    for number, embedded in numbers.embedded_in(name).items():
        setters[number] = _embedded(schema, embedded)
    return setters


def _embedded(schema: Schema, name: str) -> Setter:
    def put(found: Object, token: Token) -> None:
        _read_into(found, _payload(token, _go_name(name)), schema, name)

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
        _read_into(found.setdefault(field, {}), _payload(token, field), schema, schema.name)

    return put


def _list(field: str, items: Schema, owner: Schema) -> Setter:
    codec = _codec(items, owner)

    def put(found: Object, token: Token) -> None:
        several = found.setdefault(field, [])
        if codec.wire_type == VARINT and token.wire_type == BYTES:
            several += [codec.read(number) for number in varints(_payload(token, field))]
        else:
            several.append(_one(codec, token, field))

    return put


def _map(field: str, items: Schema, owner: Schema) -> Setter:
    codec = _codec(items, owner)

    def put(found: Object, token: Token) -> None:
        key, value = "", codec.zero()
        for part in tokens(_payload(token, field), _go_name(owner.name)):
            if part.number == _KEY:
                key = text(_payload(part, field))
            elif part.number == _VALUE:
                value = _one(codec, part, field)
        found.setdefault(field, {})[key] = value

    return put


def _one(codec: Codec, token: Token, field: str) -> Any:
    if token.wire_type != codec.wire_type:
        raise _wrong(token, field)
    return codec.read(token.value)


def _payload(token: Token, field: str) -> bytes:
    if token.wire_type != BYTES or isinstance(token.value, int):
        raise _wrong(token, field)
    return token.value


def _wrong(token: Token, field: str) -> WireError:
    go_name = field[:1].upper() + field[1:]
    return WireError(f"proto: wrong wireType = {token.wire_type} for field {go_name}")


def _codec(schema: Schema, owner: Schema) -> Codec:
    """Makes the codec of a type's values on the wire. `owner` is the struct that it is in."""
    match schema.kind:
        case Kind.OBJECT:
            return Codec(BYTES, lambda data: read(data, schema), lambda: read(b"", schema))
        case Kind.LIST if schema.items is not None:
            return _wrapped_list(_codec(schema.items, owner))
        case Kind.ANY if schema.name in values.SCHEMA_UNIONS:
            return values.schema_union(schema.name, lambda data: read(data, owner))
        case _:
            return values.codec(schema)


def _wrapped_list(items: Codec) -> Codec:
    def several(data: Any) -> list[Any]:
        return [_one(items, token, "items") for token in tokens(data, "ExtraValue") if token.number == _ITEMS]

    return Codec(BYTES, several, list)

"""Converts a map into a Go struct, not by way of JSON: upstream does so with strategic merge patches.

Numbers convert as Go's do (2.0 is a whole number, what is too large wraps), and what does not fit is told in
other words than a JSON decoder's. Source: k8s.io/apimachinery/pkg/runtime/converter.go, 1.36.
"""

from typing import Any, Final

from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.decode_errors import ShapeError
from kubeskew.apimachinery.schema import Kind, Schema

_BITS: Final = {"int32": 32, "int64": 64}
_GO_KINDS: Final = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}
_OWN_READERS: Final = frozenset({"date-time", "micro-time"})


def fitted(value: Any, schema: Schema) -> Any:
    """Returns `value` with the numbers that its type holds; raises ShapeError with the converter's text."""
    if value is None:
        return None
    match schema.kind:
        case Kind.OBJECT:
            return _struct(value, schema)
        case Kind.MAP:
            return _map(value, schema)
        case Kind.LIST:
            return _list(value, schema)
        case Kind.STRING if schema.format == "byte":
            return _bytes(value)
        case Kind.STRING if schema.format not in _OWN_READERS:
            return _string(value)
        case Kind.BOOLEAN:
            return _simple(value, bool, "bool")
        case Kind.INTEGER:
            return _integer(value, schema.format or "int64")
        case Kind.NUMBER:
            return _number(value)
    why = decode_errors.explain(value, schema)  # these types read JSON themselves
    if why:
        raise ShapeError(why)
    return value


def _struct(value: Any, schema: Schema) -> Any:
    if not isinstance(value, dict):
        raise ShapeError(f"cannot restore struct from: {_GO_KINDS[type(value)]}")
    made = dict(value)
    for name, field in schema.fields.items():
        if value.get(name) is not None:
            made[name] = fitted(value[name], field.schema)
    return made


def _map(value: Any, schema: Schema) -> Any:
    if not isinstance(value, dict):
        raise ShapeError(f"cannot restore map from {_GO_KINDS[type(value)]}")
    items = schema.items
    return value if items is None else {key: fitted(item, items) for key, item in value.items()}


def _list(value: Any, schema: Schema) -> Any:
    if not isinstance(value, list):
        raise ShapeError(f"cannot restore slice from {_GO_KINDS[type(value)]}")
    items = schema.items
    return value if items is None else [fitted(item, items) for item in value]


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise ShapeError(f"cannot restore slice from {_GO_KINDS[type(value)]}")
    offset = decode_errors.corrupt_base64_offset(value)
    if offset is not None:
        raise ShapeError(f"error decoding from json: illegal base64 data at input byte {offset}")
    return value


def _string(value: Any) -> Any:
    if type(value) is int:  # Go would make a character of it
        raise ShapeError("cannot convert int64 to string")
    return _simple(value, str, "string")


def _simple(value: Any, good: type, name: str) -> Any:
    if type(value) is not good:
        raise ShapeError(f"unrecognized type: {name}")
    return value


def _integer(value: Any, name: str) -> int:
    if type(value) is float:
        if value != int(value):
            raise ShapeError(f"cannot convert float64 to {name}")
        value = int(value)
    if type(value) is not int:
        raise ShapeError(f"unrecognized type: {name}")
    bits = _BITS[name]
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _number(value: Any) -> Any:
    if type(value) not in {int, float}:
        raise ShapeError("unrecognized type: float64")
    return value


def unknown_fields(value: Any, schema: Schema) -> list[str]:
    """Returns `unknown field "a.b"` for what the type does not have, in the order of these texts."""
    return sorted(decode_errors.strict_errors(value, schema))

"""Values as the generated code sees them: Go's zero values instead of absent ones, and Go's equality.

Sources: k8s.io/apimachinery pkg/api/equality (Semantic) and encoding/json, as used by 1.36.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.decoding.protobuf.messages import numbers_at

Reader = Callable[[Mapping[str, Any]], Any]

_ZEROES: Mapping[Kind, Any] = {
    Kind.STRING: "",
    Kind.INTEGER: 0,
    Kind.NUMBER: 0,
    Kind.INT_OR_STRING: 0,
    Kind.BOOLEAN: False,
    Kind.QUANTITY: "0",
}
_COLLECTIONS: Mapping[Kind, Any] = {Kind.LIST: [], Kind.MAP: {}}
# Structs whose fields come in another order than their numbers (k8s.io/api, 1.36).
_OTHER_ORDER: Mapping[str, tuple[str, ...]] = {
    "discovery.v1.EndpointSlice": ("metadata", "addressType", "endpoints", "ports"),
    "discovery.v1beta1.EndpointSlice": ("metadata", "addressType", "endpoints", "ports"),
    "resource.v1alpha3.PoolStatus": (
        "driver", "poolName", "generation", "resourceSliceCount", "totalDevices", "allocatedDevices",
        "availableDevices", "unavailableDevices", "nodeName", "validationError",
    ),
    "resource.v1alpha3.ResourcePoolStatusRequestStatus": ("poolCount", "pools", "conditions"),
} | {
    f"resource.{version}.AllocatedDeviceStatus": (
        "driver", "pool", "device", "shareID", "conditions", "data", "networkData",
    )
    for version in ("v1", "v1beta2", "v1beta1")
}  # fmt: skip
_TIMES = frozenset({"date-time", "micro-time"})


def reader(name: str, field: Field) -> Reader:
    """Reads a field of a struct: None for a nil pointer, else the zero value of what is absent."""
    kind = field.schema.kind
    absent = _COLLECTIONS.get(kind)
    if absent is None and not field.pointer:
        absent = {} if kind is Kind.OBJECT else zero(field.schema)
    if absent is None:
        return lambda struct: struct.get(name)

    def read(struct: Mapping[str, Any]) -> Any:
        value = struct.get(name)
        return absent if value is None else value

    return read


def zero(schema: Schema) -> Any:
    """None for a time: it has no zero value in JSON."""
    return None if schema.format in _TIMES else _ZEROES.get(schema.kind)


def is_set(schema: Schema, pointer: bool) -> Callable[[Any], bool]:
    """A pointer is set if it is not nil, another value if it is not its zero value."""
    if schema.kind in _COLLECTIONS:
        return bool
    if pointer or schema.kind is Kind.OBJECT:
        return lambda value: value is not None
    nothing = zero(schema)
    return lambda value: value is not None and value != nothing


def same(new: Any, old: Any, schema: Schema | None) -> bool:
    """Nil lists and maps equal empty ones, quantities are compared by amount."""
    if new == old:
        return True
    if schema is None:
        return False
    match schema.kind:
        case Kind.LIST:
            new, old = new or [], old or []
            return len(new) == len(old) and all(
                same(left, right, schema.items) for left, right in zip(new, old, strict=True)
            )
        case Kind.MAP:
            new, old = new or {}, old or {}
            return new.keys() == old.keys() and all(same(new[name], old[name], schema.items) for name in new)
        case Kind.OBJECT if isinstance(new, dict) and isinstance(old, dict):
            return all(
                same(read(new), read(old), field.schema)
                for field, read in (
                    (field, reader(name, field))
                    for name, field in schema.fields.items()
                    if new.get(name) != old.get(name)
                )
            )
        case Kind.QUANTITY if new is not None and old is not None:
            return Quantity.parse(str(new)) == Quantity.parse(str(old))
        case _:
            return False


def go_order(schema: Schema) -> list[str]:
    """The fields as the Go struct has them, which the numbers of protobuf follow. Fields without a number
    come last, as the catalogue has them."""
    known = _OTHER_ORDER.get(schema.name.removeprefix("io.k8s.api."))
    if known is not None:
        numbers: Mapping[str, int] = {name: number for number, name in enumerate(known)}
    else:
        numbers = numbers_at(schema.name, None)
    return sorted(schema.fields, key=lambda name: numbers.get(name, 1 << 30))


@cache
def _shown_fields(schema: Schema) -> list[tuple[str, Field]]:
    return [(name, schema.fields[name]) for name in go_order(schema)]


def shown(value: Any, schema: Schema | None) -> Any:
    """The value as Go writes it in an error: fields in Go's order, zero values that are not left out."""
    if value is None or schema is None:
        return value
    match schema.kind:
        case Kind.LIST:
            return [shown(item, schema.items) for item in value]
        case Kind.MAP:
            return {name: shown(value[name], schema.items) for name in sorted(value)}
        case Kind.OBJECT if schema.fields:
            found = {}
            for name, field in _shown_fields(schema):
                given = value.get(name)
                if given is not None:
                    found[name] = shown(given, field.schema)
                elif not field.omit_empty:
                    found[name] = _nothing(field)
            return found
        case _:
            return value


def _nothing(field: Field) -> Any:
    if field.schema.kind is Kind.OBJECT and not field.pointer:
        return shown({}, field.schema)
    return None if field.pointer else zero(field.schema)

"""Reads single values: scalars, and the types whose message is not the struct that JSON shows.

Source: k8s.io/apimachinery (time_proto.go, quantity, intstr, runtime) and apiextensions' marshal.go, 1.36.
"""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from kubeskew.apimachinery.go_durations import duration_text
from kubeskew.apimachinery.golang.raw_extensions import RAW, with_text
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.decoding.json_values import load_repeated
from kubeskew.apiserver.decoding.protobuf.wire import (
    BYTES,
    FIXED64,
    VARINT,
    Token,
    WireError,
    double,
    signed,
    text,
    tokens,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)  # Go's, whether sent as such or as an empty message
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA_UNIONS: Final = frozenset(
    f"{_APIEXTENSIONS}JSONSchemaPropsOr{what}" for what in ("Array", "Bool", "StringArray")
)


class Codec(NamedTuple):
    """Holds the way a type is read: its wire type, the value in a payload of that type, and its
    zero value.
    """

    wire_type: int
    read: Callable[[Any], Any]
    zero: Callable[[], Any]


def codec(schema: Schema) -> Codec:
    """Returns the codec of a type that is no struct, list or map."""
    match schema.kind:
        case Kind.STRING:
            return _TEXTS.get(schema.format, _STRING)
        case Kind.INTEGER:
            bits = 32 if schema.format == "int32" else 64
            return Codec(VARINT, lambda number: signed(number, bits), int)
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
    """Returns the last value of one field of a small message."""
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
    """Reads a time as RFC 3339 in seconds; None for Go's zero time, which is an empty message."""
    moment = _moment(data, nanoseconds=False)
    return None if moment is None else _rfc3339(moment, "seconds")


def micro_time(data: bytes) -> str | None:
    """Reads a time as RFC 3339 in microseconds; None for Go's zero time."""
    moment = _moment(data, nanoseconds=True)
    return None if moment is None else _rfc3339(moment, "microseconds")


def _rfc3339(moment: datetime, precision: str) -> str:
    return moment.isoformat(timespec=precision).removesuffix("+00:00") + "Z"


def _moment(data: bytes, *, nanoseconds: bool) -> datetime | None:
    if not data:
        return None
    nanos = signed(_field(data, 2, 0), 32) if nanoseconds else 0
    try:
        moment = _EPOCH + timedelta(seconds=signed(_field(data, 1, 0)), microseconds=nanos // 1000)
    except OverflowError:
        raise WireError("Time.MarshalJSON: year outside of range [0,9999]") from None
    return None if moment == _ZERO_TIME else moment


def duration(data: bytes) -> str:
    """Returns a metav1.Duration as Go prints it: `1h2m3.5s`, `100ms`, `0s`."""
    return duration_text(signed(_field(data, 1, 0)))


def quantity(data: bytes) -> str:
    """Returns the text of a quantity, checked: an unset one is 0."""
    sent = _field(data, 1, None, BYTES)
    if sent is None:
        return "0"
    try:
        Quantity.parse(text(sent))
    except ValueError as error:
        raise WireError(str(error)) from None
    return text(sent)


def int_or_string(data: bytes) -> int | str:
    """Reads an IntOrString: its type (0 is a number, 1 a string), and a field for each."""
    kind = signed(_field(data, 1, 0))
    if kind == 0:
        return signed(_field(data, 2, 0), 32)
    if kind == 1:
        return text(_field(data, 3, b"", BYTES))
    raise WireError("impossible IntOrString.Type")


def raw_json(data: bytes) -> Any:
    """Returns the JSON that a RawExtension, FieldsV1 or JSON carries; None if nothing."""
    sent = _field(data, 1, b"", BYTES)
    if not sent:
        return None
    try:
        return load_repeated(sent)
    except ValueError as error:
        raise WireError(f"raw JSON: {error}") from None


def raw_extension(data: bytes) -> Any:
    """Returns the same for a RawExtension, which keeps its bytes."""
    value = raw_json(data)
    return with_text(value, _field(data, 1, b"", BYTES)) if isinstance(value, dict) else value


def schema_union(name: str, read_schema: Callable[[bytes], Any]) -> Codec:
    """Makes the codec of JSONSchemaPropsOrArray, …OrBool and …OrStringArray of a CustomResourceDefinition."""

    def alternatives(data: bytes) -> Any:
        """Returns the list if there is one, else the schema, else whether anything is allowed, else null."""
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

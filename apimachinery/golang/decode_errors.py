"""Explains why a value does not fit a Go type, and finds fields that are unknown or given twice.

The slow, precise companion of `roundtrip`, run only after an error.

Texts: encoding/json and sigs.k8s.io/json, api/resource/quantity.go, util/intstr, meta/v1/time.go (1.36).
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any, Final

from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.schema import Kind, Schema

TIME: Final = "2006-01-02T15:04:05Z07:00"
MICRO_TIME: Final = "2006-01-02T15:04:05.000000Z07:00"
_MOST_STRICT_ERRORS = 100  # upstream stops collecting here (sigs.k8s.io/json, kubernetes_patch.go)

_GO_INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "uint8": (0, 2**8 - 1)}
_OCTET = Schema(Kind.INTEGER, format="uint8")  # Go reads bytes from lists of numbers, too


class Repeated(dict[str, Any]):
    """A JSON object with a repeated key; the last value counts."""

    pairs: tuple[tuple[str, Any], ...] = ()  # all keys and values, repeats included

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, Any]]) -> "Repeated":
        made = cls(pairs)
        made.pairs = tuple(pairs)
        return made


class ShapeError(ValueError):
    """A Go type cannot hold the value; the text is Go's."""


# --- wrong types -------------------------------------------------------------------------------------------


class _Finder:
    """Collects errors as Go's decoder does: the first mismatch is kept, an unmarshaler's own error ends at
    once."""

    def __init__(self) -> None:
        self.first: str | None = None

    def mismatch(self, found: str, struct: str, path: str, type_: str) -> None:
        self.keep(f"json: cannot unmarshal {found} into {_place(struct, path)} of type {type_}")

    def keep(self, text: str) -> None:
        if self.first is None:
            self.first = text

    def walk(self, value: Any, schema: Schema, struct: str, path: str) -> None:
        if value is None:
            return
        match schema.kind:
            case Kind.OBJECT:
                self._struct(value, schema, struct, path)
            case Kind.MAP:
                self._map(value, schema, struct, path)
            case Kind.LIST:
                self._list(value, schema, struct, path)
            case Kind.QUANTITY:
                _check_quantity(value)
            case Kind.INT_OR_STRING:
                _check_int_or_string(value, _place(struct, path))
            case Kind.STRING:
                self._string(value, schema, struct, path)
            case Kind.INTEGER:
                self._integer(value, schema, struct, path)
            case Kind.NUMBER | Kind.BOOLEAN:
                good: tuple[type, ...] = (bool,) if schema.kind is Kind.BOOLEAN else (int, float)
                if type(value) not in good:
                    self.mismatch(found(value), struct, path, go_type(schema))
            case Kind.ANY if schema.items is not None:
                _check_union(value, schema, schema.items)
            case _:
                return

    def _struct(self, value: Any, schema: Schema, struct: str, path: str) -> None:
        if not isinstance(value, dict):
            self.mismatch(found(value), struct, path, go_type(schema))
            return
        name = go_type(schema).rpartition(".")[2]
        for key, item in value.items():
            field = schema.fields.get(key)
            if field is not None:
                self.walk(item, field.schema, name, child(path, ".".join((*field.embedded, key))))

    def _map(self, value: Any, schema: Schema, struct: str, path: str) -> None:
        if not isinstance(value, dict):
            self.mismatch(found(value), struct, path, go_type(schema))
        elif schema.items is not None:
            for item in value.values():
                self.walk(item, schema.items, struct, path)

    def _list(self, value: Any, schema: Schema, struct: str, path: str) -> None:
        if not isinstance(value, list):
            self.mismatch(found(value), struct, path, go_type(schema))
        elif schema.items is not None:
            for item in value:
                self.walk(item, schema.items, struct, path)

    def _string(self, value: Any, schema: Schema, struct: str, path: str) -> None:
        if schema.format in {"date-time", "micro-time"}:
            layout = TIME if schema.format == "date-time" else MICRO_TIME
            _check_time(value, layout, _place(struct, path))
        elif schema.format == "byte" and isinstance(value, list):
            for item in value:
                self.walk(item, _OCTET, struct, path)
        elif not isinstance(value, str):
            self.mismatch(found(value), struct, path, go_type(schema))
        elif schema.format == "byte":
            offset = corrupt_base64_offset(value)
            if offset is not None:
                self.keep(f"illegal base64 data at input byte {offset}")

    def _integer(self, value: Any, schema: Schema, struct: str, path: str) -> None:
        type_ = go_type(schema)
        if type(value) in {int, float}:
            least, most = _GO_INTEGERS.get(schema.format, _GO_INTEGERS["int64"])
            if type(value) is float or not least <= value <= most:
                self.mismatch(f"number {_number_text(value)}", struct, path, type_)
        else:
            self.mismatch(found(value), struct, path, type_)


def _check_union(value: Any, schema: Schema, items: Schema) -> None:
    """Checks a schema or another type: its unmarshaler ends at the first error."""
    several = Schema(Kind.LIST, items=Schema(Kind.STRING) if schema.name.endswith("OrStringArray") else items)
    if isinstance(value, dict):
        why = explain(value, items)
    elif schema.name.endswith("OrBool"):
        why = "" if isinstance(value, bool) else "boolean or JSON schema expected"
    else:
        why = explain(value, several) if isinstance(value, list) else ""
    if why:
        raise ShapeError(why)


def explain(value: Any, schema: Schema) -> str:
    """Go's error for a `value` that is not of the schema's type; empty if it is."""
    finder = _Finder()
    try:
        finder.walk(value, schema, "", "")
    except ShapeError as error:
        return str(error)
    return finder.first or ""


def found(value: Any) -> str:
    """Names the JSON value as Go does."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def go_type(schema: Schema) -> str:
    """The Go type's name as errors show it."""
    if schema.go_name:
        return schema.go_name
    match schema.kind:
        case Kind.OBJECT:
            parts = schema.name.split(".")
            return ".".join(parts[-2:]) if schema.name else "map[string]interface {}"
        case Kind.LIST:
            return f"[]{go_type(schema.items)}" if schema.items else "[]interface {}"
        case Kind.MAP:
            return f"map[string]{go_type(schema.items)}" if schema.items else "map[string]interface {}"
        case Kind.INTEGER:
            return schema.format or "int64"
        case Kind.STRING:
            return {"byte": "[]uint8", "date-time": "v1.Time", "micro-time": "v1.MicroTime"}.get(
                schema.format, "string"
            )
    names = {Kind.NUMBER: "float64", Kind.BOOLEAN: "bool", Kind.QUANTITY: "resource.Quantity"}
    return names.get(
        schema.kind, "intstr.IntOrString" if schema.kind is Kind.INT_OR_STRING else "interface {}"
    )


def _number_text(value: float) -> str:
    return str(value)


def _check_quantity(value: Any) -> None:
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    try:
        Quantity.parse(text.strip())
    except ValueError as error:
        raise ShapeError(str(error)) from None


def _place(struct: str, path: str) -> str:
    return f"Go struct field {struct}.{path}" if struct else "Go value"


def _check_int_or_string(value: Any, place: str) -> None:
    if isinstance(value, str):
        return
    least, most = _GO_INTEGERS["int32"]
    if type(value) is int and least <= value <= most:
        return
    what = f"number {_number_text(value)}" if type(value) in {int, float} else found(value)
    raise ShapeError(f"json: cannot unmarshal {what} into {place} of type int32")


def corrupt_base64_offset(text: str) -> int | None:
    """Byte at which Go's decoder stops; None if `text` is base64."""
    clean = re.sub(r"[\r\n]", "", text)
    try:
        base64.b64decode(clean, validate=True)
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/]", clean)
        if bad is None or (bad.group() == "=" and len(clean) - bad.start() <= 2):
            return len(clean) // 4 * 4 if bad is None else bad.start()
        return bad.start()
    return None


# --- times -------------------------------------------------------------------------------------------------

_DATE = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"),
    ("15", r"\d\d"), (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"),
)  # fmt: skip
_ZONE = r"Z|[+-]\d\d:\d\d"
_LAYOUTS = {
    TIME: (*_DATE, ("", r"(?:[.,]\d+)?"), ("Z07:00", _ZONE)),
    MICRO_TIME: (*_DATE, (".000000", r"[.,]\d{6}"), ("Z07:00", _ZONE)),
}


def _time_text(text: str) -> str:
    """Quotes a text as Go's package time does: bytes outside of ASCII in hexadecimal."""
    shown = (
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte < 128 else f"\\x{byte:02x}"
        for byte in text.encode()
    )
    return f'"{"".join(shown)}"'


def parse_time(text: str, layout: str) -> datetime:
    """In UTC; raises ShapeError with the text of Go's time.Parse."""
    rest, parts = text, []
    for element, pattern in _LAYOUTS[layout]:
        match = re.match(pattern, rest)
        if match is None:
            what = f"parsing time {_time_text(text)} as {_time_text(layout)}"
            raise ShapeError(f"{what}: cannot parse {_time_text(rest)} as {_time_text(element)}")
        parts.append(match.group())
        rest = rest[match.end() :]
    if rest:
        raise ShapeError(f"parsing time {_time_text(text)}: extra text: {_time_text(rest)}")
    return _moment(text, parts)


def _moment(text: str, parts: list[str]) -> datetime:
    year, month, day = int(parts[0]), int(parts[2]), int(parts[4])
    hour, minute, second = int(parts[6]), int(parts[8]), int(parts[10])
    limits = (
        (1 <= month <= 12, "month"),
        (hour < 24, "hour"),
        (minute < 60, "minute"),
        (second < 60, "second"),
    )
    for good, what in limits:
        if not good:
            raise ShapeError(f'parsing time "{text}": {what} out of range')
    micros = int((parts[11].lstrip(".,") + "000000")[:6])
    zone = parts[12]
    offset = UTC if zone == "Z" else timezone(_offset(zone))
    try:
        return datetime(year, month, day, hour, minute, second, micros, offset).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ShapeError(f'parsing time "{text}": day out of range') from None


def _offset(zone: str) -> timedelta:
    size = timedelta(hours=min(int(zone[1:3]), 23), minutes=min(int(zone[4:6]), 59))
    return -size if zone[0] == "-" else size


def _check_time(value: Any, layout: str, place: str) -> None:
    if not isinstance(value, str):
        raise ShapeError(f"json: cannot unmarshal {found(value)} into {place} of type string")
    parse_time(value, layout)


# --- unknown and repeated fields ---------------------------------------------------------------------------


def members(value: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yields keys and values as they were given, with True if the key came before."""
    seen: set[str] = set()
    for key, item in value.pairs if isinstance(value, Repeated) else value.items():
        yield key, item, key in seen
        seen.add(key)


def kept_errors(errors: Iterable[str]) -> list[str]:
    """Drops repeats of strict errors, and those beyond the 100 that Go's decoder keeps."""
    return list(islice(dict.fromkeys(errors), _MOST_STRICT_ERRORS))


def strict_errors(value: Any, schema: Schema) -> list[str]:
    """Errors such as `unknown field "a.b"` and `duplicate field "a.c"` in the order of the document."""
    return kept_errors(_strict(value, schema, ""))


def _strict(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    if schema is None or schema.kind is Kind.ANY:
        return
    if isinstance(value, list) and schema.kind is Kind.LIST:
        for position, item in enumerate(value):
            yield from _strict(item, schema.items, index(path, position))
    elif isinstance(value, dict) and schema.kind in {Kind.MAP, Kind.OBJECT}:
        yield from _strict_keys(value, schema, path)


def _strict_keys(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    for key, item, again in members(value):
        at = child(path, key)
        field = schema.fields.get(key)
        below = schema.items if schema.kind is Kind.MAP else field.schema if field is not None else None
        if again and (field is not None or schema.kind is Kind.MAP):
            yield f'duplicate field "{at}"'
        if field is None and schema.kind is Kind.OBJECT:
            if not schema.preserve_unknown:
                yield f'unknown field "{at}"'
            continue
        yield from _strict(item, below, at)

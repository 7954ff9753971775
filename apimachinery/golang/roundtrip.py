"""Changes an object as a round trip through its Go struct would.

Unknown fields and nulls go, empty values of `omitempty` fields go, zero values of the other fields appear
(`status: {}`, `resources: {}`), quantities, times and bytes get their canonical text. A schema becomes nested
closures once; an object then costs one walk along its values. A value of the wrong Go type raises
`WrongShape`; `decode_errors` finds the text for it.
"""

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from kubeskew.apimachinery.clock import micro_timestamp, timestamp
from kubeskew.apimachinery.go_formats import as_written, number
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.schema import JSON, Field, Kind, Schema

Normaliser = Callable[[Any, list[str]], Any]  # (value, names of unknown fields met: appended to)

_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_KEPT_SCHEMAS: Final = 4096
_ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)


class WithEmpties(dict[str, Any]):
    """An object of which empty lists or maps were left out: Go does not write them, but tells them from none
    as long as it has the struct. `empties` are those, by field; they count neither in comparisons nor when
    the object is written, and are lost when it is stored."""

    __slots__ = ("empties",)

    def __init__(self, value: dict[str, Any], empties: dict[str, Any]) -> None:
        super().__init__(value)
        self.empties = empties

    def copy(self) -> "WithEmpties":
        return WithEmpties(self, dict(self.empties))

    def __reduce__(self) -> tuple[Any, ...]:
        return WithEmpties, (dict(self), self.empties)


def given(value: Any, name: str) -> Any:
    """Returns the value of a field, an empty list or map also where Go would not write it."""
    found = value.get(name)
    return value.empties.get(name) if found is None and isinstance(value, WithEmpties) else found


def empties_of(value: Any) -> dict[str, Any]:
    """Returns the empty lists and maps that were left out of an object."""
    return value.empties if isinstance(value, WithEmpties) else {}


def holds_empties(value: Any) -> bool:
    """True for an object or list with such an object anywhere in it."""
    if isinstance(value, dict):
        return isinstance(value, WithEmpties) or any(map(holds_empties, value.values()))
    return isinstance(value, list) and any(map(holds_empties, value))


def has_empties(value: Any) -> bool:
    """True for an object whose fields are not all nil in Go, though it may be written as an empty one."""
    return isinstance(value, WithEmpties)


class WrongShape(Exception):  # noqa: N818 - the answer to it is made by its catcher
    """A value does not have the Go type of the schema."""


def normalise(value: Any, schema: Schema) -> Any:
    """Raises WrongShape. Changes neither argument."""
    return normaliser(schema)(value, [])


def normalise_and_report(value: Any, schema: Schema) -> tuple[Any, bool]:
    """Normalises like `normalise`; the flag is true if a field was dropped that the schema does not have."""
    unknown: list[str] = []
    return normaliser(schema)(value, unknown), bool(unknown)


def zero(schema: Schema) -> Any:
    """Go's zero value of a type, as JSON: null for lists and maps, `{}` with its own zeroes for structs."""
    match schema.kind:
        case Kind.OBJECT:
            return normaliser(schema)({}, [])
        case Kind.STRING:
            return None if schema.format in {"byte", "date-time", "micro-time"} else ""
        case Kind.INTEGER | Kind.NUMBER | Kind.INT_OR_STRING:
            return 0
        case Kind.BOOLEAN:
            return False
        case Kind.QUANTITY:
            return "0"
        case _:
            return None


@lru_cache(maxsize=_KEPT_SCHEMAS)
def normaliser(schema: Schema) -> Normaliser:
    """Made once per schema."""
    match schema.kind:
        case Kind.OBJECT:
            return _object(schema)
        case Kind.MAP:
            return _map(schema)
        case Kind.LIST:
            return _list(schema)
        case Kind.STRING:
            return _TEXTS.get(schema.format, _string)
        case Kind.INTEGER:
            return _integer(*_INT_RANGES.get(schema.format, _INT_RANGES["int64"]))
        case Kind.NUMBER:
            return _number
        case Kind.BOOLEAN:
            return _boolean
        case Kind.QUANTITY:
            return _quantity
        case Kind.INT_OR_STRING:
            return _int_or_string
        case Kind.ANY if schema.items is not None:
            return _schema_or(schema)
        case Kind.ANY if schema.name == JSON:
            return _json
        case _:
            return _any


# --- scalars -----------------------------------------------------------------------------------------------


def _any(value: Any, _: list[str]) -> Any:
    return value


def _json(value: Any, _: list[str]) -> Any:
    return as_written(value)


def _string(value: Any, _: list[str]) -> Any:
    if value.__class__ is not str:
        raise WrongShape
    return value


def _boolean(value: Any, _: list[str]) -> Any:
    if value.__class__ is not bool:
        raise WrongShape
    return value


def _integer(least: int, most: int) -> Normaliser:
    def run(value: Any, _: list[str]) -> Any:
        if value.__class__ is not int or not least <= value <= most:
            raise WrongShape
        return value

    return run


def _number(value: Any, _: list[str]) -> Any:
    if value.__class__ is not float and value.__class__ is not int:
        raise WrongShape
    return number(value)


def _int_or_string(value: Any, _: list[str]) -> Any:
    if value.__class__ is str:
        return value
    return _INT32(value, _)


_INT32 = _integer(*_INT_RANGES["int32"])


@remembered(8192)
def canonical_quantity(text: str) -> str:
    """Raises ValueError with upstream's text."""
    return Quantity.parse(text.strip()).canonical()


def _quantity(value: Any, _: list[str]) -> Any:
    if value.__class__ is not str:
        if value.__class__ is not int and value.__class__ is not float:
            raise WrongShape
        value = str(value)
    try:
        return canonical_quantity(value)
    except ValueError as error:
        raise WrongShape from error


def _bytes(value: Any, _: list[str]) -> Any:
    if value.__class__ is list:
        value = _octets(value)
    if value.__class__ is not str:
        raise WrongShape
    if "\n" in value or "\r" in value:
        value = value.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (binascii.Error, ValueError) as error:
        raise WrongShape from error


_OCTET: Final = 2**8 - 1


def _octets(items: list[Any]) -> str:
    """Go reads bytes from a list of small numbers, too; null is 0."""
    if not all(item is None or (item.__class__ is int and 0 <= item <= _OCTET) for item in items):
        raise WrongShape
    return base64.b64encode(bytes(item or 0 for item in items)).decode()


def _time(value: Any, _: list[str]) -> Any:
    if value.__class__ is not str:
        raise WrongShape
    return _canonical_time(value, decode_errors.TIME)


def _micro_time(value: Any, _: list[str]) -> Any:
    if value.__class__ is not str:
        raise WrongShape
    return _canonical_time(value, decode_errors.MICRO_TIME)


@remembered(4096)
def _canonical_time(text: str, layout: str) -> str | None:
    """None for Go's zero time, which Go writes as null; raises WrongShape."""
    try:
        moment = decode_errors.parse_time(text, layout)
    except ValueError as error:
        raise WrongShape from error
    if moment == _ZERO_TIME:
        return None
    return timestamp(moment) if layout == decode_errors.TIME else micro_timestamp(moment)


_TEXTS: Final[dict[str, Normaliser]] = {"byte": _bytes, "date-time": _time, "micro-time": _micro_time}


# --- structs, maps, lists ----------------------------------------------------------------------------------


def _list(schema: Schema) -> Normaliser:
    items = schema.items
    if items is None:
        return _any
    plan: list[Normaliser] = []

    def run(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise WrongShape
        if not plan:  # filled in later: schemas may be recursive
            plan.append(normaliser(items))
        one = plan[0]
        return [one(item, unknown) if item is not None else zero(items) for item in value]

    return run


def _map(schema: Schema) -> Normaliser:
    items = schema.items
    if items is None:
        return _any
    plan: list[Normaliser] = []
    holds_bytes = items.format == "byte"  # here null stands for an empty text

    def run(value: Any, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise WrongShape
        if not plan:
            plan.append(normaliser(items))
        one = plan[0]
        written = {key: one(item, unknown) for key, item in value.items() if item is not None}
        if len(written) != len(value):
            blank = "" if holds_bytes else zero(items)
            return {key: written.get(key, blank) for key in value}
        return written

    return run


def _schema_or(schema: Schema) -> Normaliser:
    """Normalises a schema, a list of schemas or texts, or a boolean; Go's reader of these ignores unknown
    fields."""
    items = schema.items
    if items is None:
        return _any
    plan: list[Normaliser] = []
    texts, or_bool = schema.name.endswith("OrStringArray"), schema.name.endswith("OrBool")

    def one(value: Any) -> Any:
        if not plan:
            plan.append(normaliser(items))
        return plan[0](value, [])

    def run(value: Any, _: list[str]) -> Any:
        if isinstance(value, dict):
            return one(value)
        if isinstance(value, list) and not or_bool:
            return [_string(item, []) if texts else one(item) for item in value]
        if value.__class__ is bool and or_bool:
            return value
        if or_bool:
            raise WrongShape
        return []  # upstream's reader leaves out what is neither

    return run


def always_written(field: Field) -> bool:
    """True if Go writes an unset field, too: one without `omitempty`, or a struct that is not a pointer."""
    if not field.omit_empty:
        return True
    return field.schema.kind is Kind.OBJECT and not field.pointer


def _drops_empty(field: Field) -> bool:
    return field.omit_empty and not field.pointer and field.schema.kind is not Kind.OBJECT


def _object(schema: Schema) -> Normaliser:  # noqa: C901 - the one hot loop, kept in one function
    steps: dict[str, tuple[Normaliser, bool]] = {}
    unset: list[tuple[str, Field]] = []
    fields = schema.fields
    extra = schema.preserve_unknown

    def prepare() -> None:
        for name, field in fields.items():
            steps[name] = (normaliser(field.schema), _drops_empty(field))
            if always_written(field):
                unset.append((name, field))

    def run(value: Any, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise WrongShape
        if not steps and fields:
            prepare()
        written: dict[str, Any] = {}
        empties: dict[str, Any] | None = dict(value.empties) if value.__class__ is WithEmpties else None
        for key, item in value.items():
            step = steps.get(key)
            if step is None:
                if extra:
                    written[key] = item
                else:
                    unknown.append(key)
                continue
            if item is None:
                continue
            walk, drops = step
            result = item if walk is _string and item.__class__ is str else walk(item, unknown)
            if result is None:
                continue
            if drops and not result:
                if result.__class__ is list or result.__class__ is dict:
                    empties = {**(empties or {}), key: result}
                continue
            written[key] = result
        for key, field in unset:
            if key not in written:
                written[key] = None if field.pointer else zero(field.schema)
        return WithEmpties(written, empties) if empties else written

    return run

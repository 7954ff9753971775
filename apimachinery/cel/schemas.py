"""Structural schemas as declared types, and JSON as values of these types and back.

Lists that are sets or maps compare without order, objects are read by escaped names, texts of some formats
are times, durations or bytes.

Source: k8s.io/apiserver/pkg/cel/common (schemas.go, values.go) and pkg/cel/limits.go, 1.36.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.cel import times, types
from kubeskew.apimachinery.cel.declarations import Declared, escape, keyword_field, unescape
from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.cel.values import Optional, equal, type_name

JSONSchema = Mapping[str, Any]

_REQUEST = 3 * 1024 * 1024  # the largest request in bytes
_DATE, _LEAST_TIME, _MOST_TIME, _LEAST_DURATION, _MOST_DURATION = 12, 21, 32, 3, 32
_TEXT_QUOTES, _BOOLEAN, _NUMBER = 2, 4, 1
_NO_INT_OR_STRING = "invalid data, expected XIntOrString value to be either a string or integer"
_TEXT: JSONSchema = {"type": "string"}
_META: JSONSchema = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}


def declare(schema: JSONSchema, root: bool = False, name: str = "selfType") -> Declared | None:
    """None if expressions cannot see the schema.

    `root`: the schema is (or embeds) a resource, whose apiVersion, kind and names can always be seen. `name`
    begins the names of the object types in it.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(types.DYN, _most_characters(schema), smallest=1, schema=schema, plain=False)
    if root:
        schema = _with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _array(schema, name)
        case "object":
            return _map(schema, name) if _values(schema) is not None else _object(schema, name)
        case "string":
            return _string(schema)
        case "boolean":
            return Declared(types.BOOL, smallest=_BOOLEAN, schema=schema)
        case "number":
            return Declared(types.DOUBLE, smallest=_NUMBER, schema=schema, plain=False)
        case "integer":
            return Declared(types.INT, smallest=_NUMBER, schema=schema)
    return None


def _values(schema: JSONSchema) -> JSONSchema | None:
    values = schema.get("additionalProperties")
    return values if isinstance(values, Mapping) else None


def _inner(schema: JSONSchema, name: str) -> Declared | None:
    return declare(schema, bool(schema.get("x-kubernetes-embedded-resource")), name)


def _array(schema: JSONSchema, name: str) -> Declared | None:
    items = schema.get("items")
    element = _inner(items, f"{name}.@idx") if isinstance(items, Mapping) else None
    if element is None:
        return None
    most = schema.get("maxItems")
    most = (_REQUEST - 2) // (element.smallest + 1) if most is None else max(most, 0)
    plain = element.plain and schema.get("x-kubernetes-list-type") not in ("map", "set")
    return Declared(
        types.list_of(element.type), most, element=element, smallest=2, schema=schema, plain=plain
    )


def _map(schema: JSONSchema, name: str) -> Declared | None:
    element = _inner(_values(schema) or {}, f"{name}.@elem")
    if element is None:
        return None
    most = schema.get("maxProperties")
    most = (_REQUEST - 2) // (element.smallest + 6) if most is None else max(most, 0)
    return Declared(
        types.map_of(types.STRING, element.type),
        most,
        key=Declared(types.STRING),
        element=element,
        smallest=2,
        schema=schema,
        plain=element.plain,
    )


def _object(schema: JSONSchema, name: str) -> Declared:
    fields: dict[str, Declared] = {}
    required = frozenset(schema.get("required") or ())
    smallest, plain = 2, not schema.get("x-kubernetes-preserve-unknown-fields")
    for property_name, below in (schema.get("properties") or {}).items():
        escaped = escape(property_name)
        declared = _inner(below, f"{name}.{escaped or property_name}")
        if declared is None:
            continue
        if escaped is not None:
            fields[escaped] = declared
            plain = plain and declared.plain and escaped == property_name and not below.get("nullable")
        if property_name in required and below.get("default") is None:
            smallest += len(property_name) + declared.smallest + 4
    kind = types.object_type(name, fields)
    return Declared(kind, 0, fields, smallest=smallest, schema=schema, plain=plain)


def _most_characters(schema: JSONSchema) -> int:
    most = schema.get("maxLength")
    return _REQUEST - 2 if most is None else max(most, 0) * 4


def _string(schema: JSONSchema) -> Declared:
    match schema.get("format"):
        case "byte":
            most = schema.get("maxLength")
            most = _REQUEST - 2 if most is None else max(most, 0)
            return Declared(types.BYTES, most, smallest=_TEXT_QUOTES, schema=schema, plain=False)
        case "duration":
            return Declared(
                types.DURATION, _MOST_DURATION, smallest=_LEAST_DURATION, schema=schema, plain=False
            )
        case "date":
            return Declared(types.TIMESTAMP, _DATE, smallest=_DATE, schema=schema, plain=False)
        case "date-time":
            return Declared(types.TIMESTAMP, _MOST_TIME, smallest=_LEAST_TIME, schema=schema, plain=False)
    most = _most_characters(schema)
    if schema.get("maxLength") is None and schema.get("enum"):
        most = max((len(value.encode()) for value in schema["enum"] if isinstance(value, str)), default=0)
    return Declared(types.STRING, most, smallest=_TEXT_QUOTES, schema=schema)


def _with_metadata(schema: JSONSchema) -> JSONSchema:
    properties = dict(schema.get("properties") or {})
    meta = (properties.get("metadata") or {}).get("properties") or {}
    complete = all((properties.get(name) or {}).get("type") == "string" for name in ("kind", "apiVersion"))
    if complete and all((meta.get(name) or {}).get("type") == "string" for name in ("name", "generateName")):
        return schema
    return {**schema, "properties": {**properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _META}}


def to_value(data: Any, declared: Declared) -> Any:
    """Data that does not fit its declaration fails when it is read."""
    if declared.plain or data is None:
        return data
    if declared.type.kind == "struct":
        return StructView(data, declared) if isinstance(data, Mapping) else data
    if declared.type.kind == "map":
        return MapView(data, declared) if isinstance(data, Mapping) else data
    if declared.type.kind == "list":
        return _list(data, declared) if isinstance(data, list) else data
    return _scalar(data, declared)


def _scalar(data: Any, declared: Declared) -> Any:
    if declared.type == types.DOUBLE:
        return float(data) if isinstance(data, int) and not isinstance(data, bool) else data
    if declared.type == types.DYN:
        if isinstance(data, bool) or not isinstance(data, int | str):
            raise EvaluationError(_NO_INT_OR_STRING)
        return data
    if not isinstance(data, str):
        return data
    try:
        if declared.type == types.BYTES:
            # Validation takes the usual alphabet, and what reads it the one for URLs.
            wrong = re.search(r"[+/]", data)
            if wrong is not None:
                raise ValueError(f"illegal base64 data at input byte {wrong.start()}")
            return base64.urlsafe_b64decode(data)
        if declared.type == types.DURATION:
            return times.loose_duration(data)
        date = (declared.schema or {}).get("format") == "date"
        return times.timestamp(f"{data}T00:00:00Z" if date else data)
    except (ValueError, binascii.Error) as error:
        what = (declared.schema or {}).get("format")
        formatted = "" if what == "duration" else " formatted string"
        raise EvaluationError(f"Invalid {what}{formatted} {data}: {error}") from None


def _list(data: list[Any], declared: Declared) -> list[Any]:
    element = declared.element
    values = data if element is None or element.plain else [to_value(item, element) for item in data]
    schema = declared.schema or {}
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return SetList(values)
        case "map":
            return MapList(values, tuple(schema.get("x-kubernetes-list-map-keys") or ()))
    return values if element is None or element.type not in _IN_GO else ReadList(values, "string")


class StructView(Mapping[str, Any]):
    """An object: its keys are escaped names of declared properties; null counts as absent."""

    cel_type = "object"
    __slots__ = ("_data", "_declared")

    def __init__(self, data: Mapping[str, Any], declared: Declared) -> None:
        self._data = data
        self._declared = declared

    def _property(self, key: object) -> tuple[str, Declared] | None:
        """Finds the property of an escaped name; None if it is not declared."""
        if not isinstance(key, str):
            return None
        field = self._declared.fields.get(key) or self._declared.fields.get(keyword_field(key))
        name = unescape(key) if field is not None else None
        return None if name is None or field is None else (name, field)

    def __getitem__(self, key: str) -> Any:
        found = self._property(key)
        if found is None or self._data.get(found[0]) is None:
            raise KeyError(key)
        return to_value(self._data[found[0]], found[1])

    def __contains__(self, key: object) -> bool:
        found = self._property(key)
        return found is not None and self._data.get(found[0]) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._declared.fields if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def raw(self) -> Mapping[str, Any]:
        """The object as JSON, without its declaration."""
        return self._data

    def equals(self, other: Mapping[str, Any]) -> bool:
        """Compares field by field; as upstream, null does not even equal itself."""
        theirs = other.raw() if isinstance(other, StructView) else other
        if len(self._data) != len(theirs):
            return False
        for name, value in self._data.items():
            key = escape(name)
            if key is None or key not in self._declared.fields:
                if name in theirs and theirs[name] != value:
                    return False
            elif key not in self or key not in other or not equal(self[key], other[key]):
                return False
        return True


class MapView(Mapping[str, Any]):
    """A map whose values need their declaration."""

    cel_type = "map"
    __slots__ = ("_data", "_element")

    def __init__(self, data: Mapping[str, Any], declared: Declared) -> None:
        self._data = data
        self._element = declared.element or Declared(types.DYN)

    def __getitem__(self, key: str) -> Any:
        return to_value(self._data[key], self._element)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


_IN_GO = {types.TIMESTAMP: "time.Time", types.DURATION: "time.Duration", types.BYTES: "[]uint8"}


class ReadList(list[Any]):
    """A list whose items are read from texts; what is added to it is not text, and fails when it is read."""

    def __init__(self, items: Iterable[Any], wanted: str) -> None:
        super().__init__(items)
        self._wanted = wanted

    def extended(self, other: Iterable[Any]) -> "ReadList":
        return ReadList([*self, *map(self._unread, other)], self._wanted)

    def _unread(self, item: Any) -> Any:
        native = next((text for kind, text in _IN_GO.items() if kind.name == type_name(item)), "")
        failure = f"invalid data, expected {self._wanted}, got {native}"
        return EvaluationError(failure) if native else item

    def __getitem__(self, place: Any) -> Any:
        item = super().__getitem__(place)
        if item.__class__ is EvaluationError:
            raise item
        return item


class SetList(list[Any]):
    """A list of type set: its order does not count, and adding appends only new items."""

    def equals(self, other: Sequence[Any]) -> bool:
        return len(self) == len(other) and all(_within(item, self) for item in other)

    def extended(self, other: Iterable[Any]) -> "SetList":
        return SetList([*self, *(item for item in other if not _within(item, self))])


class MapList(list[Any]):
    """A list of type map: items are identified by their keys; adding replaces items with equal keys."""

    def __init__(self, items: Iterable[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self._keys = keys

    def _key(self, item: Any) -> tuple[Any, ...]:
        """Looks escaped names up in data whose names are not escaped, as upstream does."""
        raw = item.raw() if isinstance(item, StructView) else item
        return tuple([raw.get(escape(key) or key) for key in self._keys])

    def equals(self, other: Sequence[Any]) -> bool:
        mine = {self._key(item): item for item in self}
        return len(self) == len(other) and all(
            self._key(item) in mine and equal(item, mine[self._key(item)]) for item in other
        )

    def extended(self, other: Iterable[Any]) -> "MapList":
        items = list(self)
        places = {self._key(item): place for place, item in enumerate(items)}
        for item in other:
            place = places.get(self._key(item))
            if place is None:
                items.append(item)
            else:
                items[place] = item
        return MapList(items, self._keys)


def _within(item: Any, items: Iterable[Any]) -> bool:
    return any(equal(item, other) for other in items)


def to_json(value: Any) -> Any:
    """Converts for an object or a patch; raises EvaluationError for values that JSON cannot express."""
    if isinstance(value, Optional):
        return to_json(value.value) if value.present else None
    if isinstance(value, Mapping):
        escaped = hasattr(value, "cel_type_of") or isinstance(value, StructView)
        return {_json_key(key, escaped=escaped): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return times.timestamp_text(value)
    if isinstance(value, Duration):
        return times.duration_text(value)
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    named = type_name(value).rpartition(".")[2].removeprefix("Named")
    if named == "type":
        raise EvaluationError("type conversion not supported for 'type'")
    raise EvaluationError(f"type conversion error from '{named}' to '*structpb.Value'")


def _json_key(key: Any, *, escaped: bool) -> str:
    if isinstance(key, str):
        return (unescape(key) or key) if escaped else key
    if isinstance(key, bool):
        raise EvaluationError("type conversion error from bool to 'string'")
    raise EvaluationError(f"unsupported type conversion from '{type_name(key)}' to string")

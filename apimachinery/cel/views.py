"""Presents JSON as values of its declared type, and values as JSON.

Lists that are sets or maps compare without order, objects are read by escaped names, texts of some formats
are times, durations or bytes.

Source: k8s.io/apiserver/pkg/cel/common/values.go, 1.36.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.cel import times, types
from kubeskew.apimachinery.cel.declarations import Declared
from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.names import escape, keyword_field, unescape
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.cel.values import Optional, equal, type_name


def to_value(data: Any, declared: Declared) -> Any:
    """Returns `data` as expressions see it; data that does not fit its declaration fails when it is read."""
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
    if not isinstance(data, str):
        return data
    try:
        if declared.type == types.BYTES:
            return base64.b64decode(data, validate=True)
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
    return values


class StructView(Mapping[str, Any]):
    """An object: its keys are escaped names of declared properties; null counts as absent."""

    cel_type = "object"
    __slots__ = ("_data", "_declared")

    def __init__(self, data: Mapping[str, Any], declared: Declared) -> None:
        self._data = data
        self._declared = declared

    def _property(self, key: object) -> tuple[str, Declared] | None:
        """Returns the name of a property and its declaration."""
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
        """Returns the object as JSON."""
        return self._data

    def equals(self, other: Mapping[str, Any]) -> bool:
        """Returns whether both objects have equal fields; as upstream, null does not even equal itself."""
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
        """Returns an item's keys.

        As upstream, escaped names are looked up in data whose names are not escaped.
        """
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
    """Returns a value as JSON for an object or a patch; raises EvaluationError for what JSON cannot
    express."""
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

"""Keeps the bytes of RawExtension fields: opaque parameters, device data, the data of revisions.

Go holds a raw field as it was sent, white space and the spelling of numbers included. So two of the same
value may differ, and an update that only spells an immutable one otherwise is refused; answers have them
without white space, in the order written. A JSON or merge patch takes them from an answer; a strategic
merge patch, and an apply that changes something, write them again, with sorted keys.

Source: k8s.io/apimachinery/pkg/runtime/extension.go (RawExtension) and encoding/json (compact), 1.36.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from kubeskew.apimachinery.go_formats import as_written
from kubeskew.apimachinery.schema import Kind, Schema

RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_KEPT_SCHEMAS: Final = 4096
_UNTIDY = re.compile(rb"[\s<>&]|\xe2\x80[\xa8\xa9]")
_STRING_OR_SPACE = re.compile(rb'"(?:[^"\\]|\\.)*"|\s+', re.DOTALL)
_ESCAPED = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_ESCAPES = {
    b"<": rb"\u003c",
    b">": rb"\u003e",
    b"&": rb"\u0026",
    b"\xe2\x80\xa8": rb"\u2028",
    b"\xe2\x80\xa9": rb"\u2029",
}
_SPACE = re.compile(r"[ \t\n\r]*")
_scan = json.JSONDecoder(strict=False).raw_decode  # from a position: the value, and where it ends


class RawObject(dict[str, Any]):
    """A JSON object with the bytes that it was written as; equal to another one with the same bytes.

    It is also equal to a plain object of the same value, which has no bytes yet.
    """

    __slots__ = ("text",)
    __hash__ = None

    def __init__(self, value: Mapping[str, Any], text: bytes) -> None:
        super().__init__(value)
        self.text = text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RawObject):
            return self.text == other.text
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __deepcopy__(self, _: Any) -> "RawObject":
        return RawObject(orjson.loads(orjson.dumps(self)), self.text)


def with_text(value: dict[str, Any], text: bytes) -> dict[str, Any]:
    """Keeps the bytes that an object was written as, unless no store could read them.

    Go keeps text that is no UTF-8 and halves of surrogate pairs; here they are U+FFFD, as in other fields.
    """
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return value
    return RawObject(value, text)


# The places of such fields in a type: None is the field itself; "" stands for items of lists and maps.
_Places = Mapping[str, "_Places | None"]


class RawFields:
    def __init__(self, places: _Places) -> None:
        self._places = places
        self._names = tuple(sorted(b'"%b"' % name.encode() for name in set(_names(places))))

    def may_be_in(self, data: bytes) -> bool:
        """Searches for the names alone: false means that the JSON has no raw field, true that it may have
        some."""
        return any(name in data for name in self._names)

    def keep(self, value: Any, data: bytes) -> None:
        """Stores the bytes of each raw field of `value`, which was parsed from the JSON in `data`."""
        if isinstance(value, dict):
            text = data.decode("utf-8", "replace")
            _keep(text, _after_space(text, 0), value, self._places)

    def carry(self, value: Any, before: Any) -> None:
        """Rewrites raw fields of `value` as those of `before` were written that have the same value."""
        known = {_sorted(item): item.text for item in self.of(before)}
        if known:
            self._rewrite(value, lambda item: known.get(_sorted(item)) or text_of(item))

    def keep_texts(self, value: Any, before: Any) -> None:
        """Rewrites raw fields of a patched `value` as an answer with `before` had them; a new value is
        written by orjson."""
        known = {orjson.dumps(item): compact(item.text) for item in self.of(before)}

        def text(item: dict[str, Any]) -> bytes:
            written = orjson.dumps(item)
            return known.get(written, written)

        self._rewrite(value, text)

    def sort(self, value: Any) -> None:
        """Rewrites raw fields of `value` without bytes as Go writes a map."""
        for holder, name, item in list(_found(value, self._places)):
            if not isinstance(item, RawObject):
                holder[name] = marshalled(item)

    def make_compact(self, value: Any) -> bool:
        """Rewrites raw fields of `value` as they are answered; False if none changes."""
        changed = any(compact(item.text) != item.text for item in self.of(value))
        if changed:
            self._rewrite(value, lambda item: compact(text_of(item)))
        return changed

    def of(self, value: Any) -> Iterator[RawObject]:
        """Only fields with bytes."""
        return (item for _, _, item in _found(value, self._places) if isinstance(item, RawObject))

    def _rewrite(self, value: Any, text: Callable[[dict[str, Any]], bytes]) -> None:
        for holder, name, item in list(_found(value, self._places)):
            written = text(item)
            holder[name] = RawObject(item if isinstance(item, RawObject) else orjson.loads(written), written)


def text_of(item: Any) -> bytes:
    """The bytes of a RawObject; any other value is written by orjson."""
    return item.text if isinstance(item, RawObject) else orjson.dumps(item)


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def marshalled(value: Any) -> RawObject:
    """Go writes a map with sorted keys at every level."""
    text = compact(_sorted(as_written(value)))
    return RawObject(orjson.loads(text), text)


def plain(value: Any) -> Any:
    """Copies JSON; raw fields lose their bytes."""
    return orjson.loads(orjson.dumps(value))


@lru_cache(maxsize=_KEPT_SCHEMAS)
def raw_fields(schema: Schema) -> RawFields | None:
    """None if the type has no raw field."""
    places = _places(schema, ())
    return RawFields(places) if places else None


def compact(text: bytes) -> bytes:
    """Removes white space, and escapes the characters `<>&` and U+2028 and U+2029, as Go does in answers."""
    if _UNTIDY.search(text) is None:
        return text
    return _STRING_OR_SPACE.sub(_compacted, text)


def dumps(value: Any) -> tuple[bytes, bool]:
    """Writes raw fields as their bytes; the flag is true if these are compact, as answers need them."""
    tidy = True

    def written(item: Any) -> Any:
        nonlocal tidy
        if isinstance(item, RawObject):
            tidy = tidy and _UNTIDY.search(item.text) is None
            return orjson.Fragment(item.text)
        if isinstance(item, dict):
            return dict(item)
        if isinstance(item, list):
            return list(item)
        if isinstance(item, str):
            return str(item)
        if isinstance(item, int):
            return int(item)
        raise TypeError(f"{type(item).__name__} is no JSON")

    return orjson.dumps(value, default=written, option=orjson.OPT_PASSTHROUGH_SUBCLASS), tidy


def _compacted(found: re.Match[bytes]) -> bytes:
    part = found[0]
    return _ESCAPED.sub(lambda one: _ESCAPES[one[0]], part) if part[:1] == b'"' else b""


def _names(places: _Places) -> Iterator[str]:
    for name, below in places.items():
        if below is None:
            yield name
        else:
            yield from _names(below)


def _places(schema: Schema | None, above: tuple[Schema, ...]) -> _Places:
    if schema is None or schema in above:
        return {}
    above = (*above, schema)
    found: dict[str, _Places | None] = {}
    for name, field in schema.fields.items():
        if field.schema.name == RAW:
            found[name] = None
        elif below := _places(field.schema, above):
            found[name] = below
    if schema.kind in (Kind.LIST, Kind.MAP) and (below := _places(schema.items, above)):
        found[""] = below
    return found


def _found(value: Any, places: _Places) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Each raw field as its holder, its name and the object in it."""
    items = places.get("")
    if items is not None:
        for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
            yield from _found(item, items)
        return
    if not isinstance(value, dict):
        return
    for name, below in places.items():
        item = value.get(name)
        if below is not None:
            yield from _found(item, below)
        elif isinstance(item, dict):
            yield value, name, item


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _keep(text: str, at: int, value: Any, places: _Places) -> int:
    """Stores the bytes of the raw fields of `value`, which begins at `at` in `text`; the result is its
    end."""
    items = places.get("")
    if text[at] == "{" and isinstance(value, dict):
        return _keep_members(text, at, value, places if items is None else None, items)
    if text[at] == "[" and isinstance(value, list) and items is not None:
        at, index = _after_space(text, at + 1), 0
        while text[at] != "]":  # a key that comes again has another list as its value
            item = value[index] if index < len(value) else None
            at, index = _after_space(text, _keep(text, at, item, items)), index + 1
            at = _after_space(text, at + 1) if text[at] == "," else at
        return at + 1
    return _scan(text, at)[1]


def _keep_members(
    text: str, at: int, value: dict[str, Any], places: _Places | None, items: _Places | None
) -> int:
    at = _after_space(text, at + 1)
    while text[at] != "}":
        name, at = _scan(text, at)
        at = _after_space(text, _after_space(text, at) + 1)
        item = value.get(name)
        below = items if places is None else places.get(name)
        if below is not None:
            at = _keep(text, at, item, below)
        else:
            start, at = at, _scan(text, at)[1]
            if places is not None and name in places and isinstance(item, dict):
                value[name] = with_text(item, text[start:at].encode("utf-8", "replace"))
        at = _after_space(text, at)
        at = _after_space(text, at + 1) if text[at] == "," else at
    return at + 1

"""Writes and reads one step of a field path, in the form of FieldsV1.

`f:name` a field, `k:{"name":"a"}` the element of a list by its keys, `v:"x"` the element of a set by its
value, `i:0` by its position. Equal elements have equal text: keys sorted, JSON compact, whole numbers as
integers.

Source: sigs.k8s.io/structured-merge-diff/v6/fieldpath (serialize-pe.go, element.go).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from kubeskew.apimachinery.go_text import quoted
from kubeskew.apimachinery.memoizing import remembered
from kubeskew.apiserver.decoding import go_json

Path = tuple[str, ...]

_KINDS = {"f": 0, "k": 1, "v": 2, "i": 3}


def field(name: str) -> str:
    """Returns the element of a field or a map's key."""
    return f"f:{name}"


def keyed(keys: Mapping[str, Any]) -> str:
    """Returns the element of a list's item by its keys."""
    parts = [part for name in sorted(keys) for part in (name, _number(keys[name]))]
    if any(isinstance(part, str) and len(part) > _LONG for part in parts):
        return _keyed(*parts)
    try:
        return _remembered(*parts)
    except TypeError:  # a list or a map for a key: no item of a valid object has one
        return _keyed(*parts)


_LONG = 1024  # characters: what is longer is not kept


def _keyed(*parts: Any) -> str:
    """Returns the element of names and values, which come in turn."""
    return "k:" + _json(dict(zip(parts[::2], parts[1::2], strict=True)))


_remembered = lru_cache(maxsize=8192, typed=True)(_keyed)  # the same few come again and again


def valued(value: Any) -> str:
    """Returns the element of a set's item."""
    return "v:" + _json(_number(value))


def indexed(position: int) -> str:
    """Returns the element of a list's item by its position."""
    return f"i:{position}"


@remembered(8192)
def canonical(text: str) -> str | None:
    """Returns the element that `text` stands for; None for a kind not known here. Raises ValueError."""
    if len(text) < 2:
        raise ValueError("key must be 2 characters long:")
    if text[1] != ":":
        raise ValueError(f"missing colon: {text}")
    kind, content = text[0], text[2:]
    if kind == "f":
        return text
    if kind == "i":
        return indexed(int(content))
    if kind == "v":
        return valued(orjson.loads(content))
    if kind != "k":
        return None
    keys = orjson.loads(content)
    if not isinstance(keys, dict):
        raise ValueError(f"not an object: {content}")
    return keyed(keys)


@remembered(8192)
def sort_key(element: str) -> tuple[Any, ...]:
    """Returns the sort key of an element: fields, then keys, then values, then positions."""
    kind, content = _KINDS[element[0]], element[2:]
    if kind == 0:
        return kind, content
    if kind == 3:
        return kind, int(content)
    value = orjson.loads(content)
    if kind == 2:
        return kind, _rank(value)
    return kind, tuple((name, _rank(item)) for name, item in value.items())


def in_order(elements: Iterable[str]) -> list[str]:
    """Returns the elements as FieldsV1 lists them."""
    found = sorted(elements)
    if found and found[-1][0] != "f":  # the letters of the other kinds come later in the alphabet
        found.sort(key=sort_key)
    return found


def show(path: Iterable[str]) -> str:
    """Returns a path as messages print it: `.spec.containers[name="c"].image`."""
    return "".join(map(show_element, path))


def show_element(element: str) -> str:
    kind, content = element[0], element[2:]
    if kind == "f":
        return f".{content}"
    if kind == "i":
        return f"[{content}]"
    value = orjson.loads(content)
    if kind == "v":
        return f"[={_show(value)}]"
    return f"[{','.join(f'{name}={_show(item)}' for name, item in value.items())}]"


def _json(value: Any) -> str:
    return go_json.escaped(orjson.dumps(value).decode())


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e18 else value


def _rank(value: Any) -> tuple[Any, ...]:
    """Returns the rank of a value's type: numbers, texts, booleans, lists, maps, null."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return (5, 0) if value is None else (3 + isinstance(value, dict), orjson.dumps(value))


def _show(value: Any) -> str:
    """Shows a value as Go's value.ToString: text in quotes, the rest as JSON."""
    return quoted(value) if isinstance(value, str) else orjson.dumps(value).decode()

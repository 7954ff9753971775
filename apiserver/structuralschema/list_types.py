"""Checks that sets and map lists hold nothing twice.

Source: apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go, 1.36.
"""

import json
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.field import FieldError, duplicate, index, invalid
from kubeskew.apiserver.structuralschema.kinds import sorted_maps
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.paths import child, key

_UNSPECIFIED = object()


def validate_lists(value: Any, node: Structural, path: str = "") -> list[FieldError]:
    """Returns errors of every list in `value`."""
    return list(_walk(value, node, path)) if node.has_keyed_lists else []


def _walk(value: Any, node: Structural, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict | list):
                if node.additional is not None and node.additional.has_keyed_lists:
                    yield from _walk(item, node.additional, key(path, name))
                below = node.properties.get(name)
                if below is not None and below.has_keyed_lists:
                    yield from _walk(item, below, child(path, name))
    elif isinstance(value, list):
        if node.list_type == "set":
            for position in repeated(value):
                yield duplicate(index(path, position), sorted_maps(value[position]))
        elif node.list_type == "map":
            yield from _map_list(value, node, path)
        if node.items is not None and node.items.has_keyed_lists:
            for position, item in enumerate(value):
                yield from _walk(item, node.items, index(path, position))


def _map_list(value: list[Any], node: Structural, path: str) -> Iterator[FieldError]:
    for position, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(index(path, position), item, "must be an object for an array of list-type map")
            return
    if len(node.list_keys) == 1:
        name = node.list_keys[0]
        found = [(item or {}).get(name, _UNSPECIFIED) for item in value]
        for position in repeated(found):
            shown = {} if found[position] is _UNSPECIFIED else {name: found[position]}
            yield duplicate(index(path, position), sorted_maps(shown))
        return
    keys = [{name: item[name] for name in node.list_keys if name in item} if item else {} for item in value]
    for position in repeated(keys):
        yield duplicate(index(path, position), sorted_maps(keys[position]))


def repeated(values: list[Any]) -> list[int]:
    """Returns the position of each value's second occurrence; further occurrences are left out."""
    times: dict[Any, int] = {}
    found = []
    for position, value in enumerate(values):
        if isinstance(value, dict | list):
            mark: Any = json.dumps(value, sort_keys=True)
        else:
            mark = (type(value), value)
        times[mark] = times.get(mark, 0) + 1
        if times[mark] == 2:
            found.append(position)
    return found

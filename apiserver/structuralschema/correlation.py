"""Finds the old value that a new one was made from, and compares the two.

Fields are found by name, items of map lists by their keys; items of other lists have no old value.
Source: apiserver pkg/cel/common/{equality,maplist}.go, 1.36.
"""

from collections.abc import Callable
from typing import Any, Final

from kubeskew.apimachinery.objects import Object

NOTHING: Final = object()  # no value that this one could have been
_SCALARS = (bool, int, float, str)

Find = Callable[[Any], Any]  # the old item of a new one, or NOTHING


def item_finder(props: Object) -> Callable[[Any], Find | None]:
    """Returns the function that finds the old items of a list of this schema; it gives None for
    other lists.
    """
    keys = tuple(props.get("x-kubernetes-list-map-keys") or ())
    is_map = props.get("x-kubernetes-list-type") == "map" and bool(keys)

    def finder(old: Any) -> Find | None:
        if not is_map or not isinstance(old, list):
            return None
        known: dict[Any, Any] = {}
        for item in old:
            at = _key_of(item, keys)
            if at is not None:
                known.setdefault(at, item)

        def find(item: Any) -> Any:
            at = _key_of(item, keys)
            return known.get(at, NOTHING) if at is not None else NOTHING

        return find

    return finder


def _key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...] | None:
    if not isinstance(item, dict):
        return None
    values = [item.get(key) for key in keys]
    if any(not isinstance(value, _SCALARS) for value in values):
        return None
    return tuple((type(value), value) for value in values)


def equal(new: Any, old: Any) -> bool:
    """Decides whether JSON values are equal with their types: 1 is neither 1.0 nor true."""
    if type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(equal(item, old[name]) for name, item in new.items())
    if isinstance(new, list):
        return len(new) == len(old) and all(map(equal, new, old))
    return bool(new == old)


def same(new: Any, old: Any, props: Object | None) -> bool:
    """Decides whether a value of the schema is the same as before: the order of a map list does not count."""
    if isinstance(new, dict) and isinstance(old, dict):
        return len(new) == len(old) and all(_same_field(new, old, name, props) for name in new)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and _same_items(new, old, props or {})
    return equal(new, old)


def _same_field(new: Object, old: Object, name: str, props: Object | None) -> bool:
    if name not in old or props is None:
        return False
    below = (props.get("properties") or {}).get(name)
    if below is None:
        extra = props.get("additionalProperties")
        below = extra if isinstance(extra, dict) else None
    if below is None:
        return False  # what the schema does not know cannot be compared: upstream takes it for changed
    return same(new[name], old[name], below)


def _same_items(new: list[Any], old: list[Any], props: Object) -> bool:
    find = item_finder(props)(old)
    if find is None:
        return equal(new, old)
    items = props.get("items")
    for item in new:
        before = find(item)
        if before is NOTHING or not same(item, before, items):
            return False
    return True

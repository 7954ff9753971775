"""Differences between two JSON objects, and what a difference makes of the older one.

A difference is an object whose keys are marked, one entry for each key that is not the same in both:

    "-key": 0           the key goes
    "+key": value       the key has this value from now on, be it new or changed
    "~key": difference  both values are objects, and this is their difference

Anything but objects is replaced whole. The order of keys is none of a document's content.
"""

import json
from collections.abc import Mapping
from typing import Any


def difference(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a difference are sorted; that of equal objects is empty."""
    found: dict[str, Any] = {}
    for key in sorted(older.keys() | newer.keys()):
        if key not in newer:
            found["-" + key] = 0
        elif key not in older:
            found["+" + key] = newer[key]
        elif isinstance(older[key], dict) and isinstance(newer[key], dict):
            if inner := difference(older[key], newer[key]):
                found["~" + key] = inner
        elif not _same(older[key], newer[key]):
            found["+" + key] = newer[key]
    return found


def applied(older: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The newer object, which shares with the older one what did not change. Raises KeyError if they do not
    fit."""
    newer = dict(older)
    for marked, value in changes.items():
        mark, key = marked[0], marked[1:]
        if mark == "-":
            del newer[key]
        elif mark == "~":
            newer[key] = applied(newer[key], value)
        else:
            newer[key] = value
    return newer


def _same(one: Any, other: Any) -> bool:
    """In JSON, `1`, `1.0` and `true` are three values; in Python they are equal."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

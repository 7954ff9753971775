"""Defaults that functions of a tree set, given to fields that the base release does not have.

Kubeskew's own code sets the defaults of the base's fields, with their conditions; it does not know new ones.
"""

import re
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_WRAPPED = re.compile(r"^(\[\]|\{\}|'[^']*')+")


def with_defaults(
    definitions: Mapping[str, Document], base: Mapping[str, Document], defaults: Mapping[str, Document]
) -> tuple[dict[str, Document], list[str]]:
    """Both releases as `types.release` makes them, and the paths of new fields that get no default.

    A field of a struct gets the default of a path only if the struct is nowhere but in that path, and behind
    a gate only if the field is behind the gate itself.
    """
    found = dict(definitions)
    users = _users(definitions)
    left = []
    for name, by_path in defaults.items():
        for path, default in by_path.items():
            owner, field, alone = _place(definitions, users, name, path)
            if not owner or field in base.get(owner, {}).get("fields", {}):
                continue
            spec = found[owner]["fields"][field]
            if not alone or not set(default.get("g", ())) <= set(spec.get("g", ())):
                left.append(f"{name}: {path}")
                continue
            changed = spec if "d" in spec else spec | {"fd": default["d"]}
            found[owner] = found[owner] | {"fields": found[owner]["fields"] | {field: changed}}
    return found, left


def _users(definitions: Mapping[str, Document]) -> dict[str, set[tuple[str, str]]]:
    """The fields of each type, as owner and name."""
    users: dict[str, set[tuple[str, str]]] = {}
    for owner, definition in definitions.items():
        for field, spec in definition.get("fields", {}).items():
            users.setdefault(_element(spec["t"]), set()).add((owner, field))
    return users


def _place(
    definitions: Mapping[str, Document], users: Mapping[str, set[tuple[str, str]]], name: str, path: str
) -> tuple[str, str, bool]:
    """The struct and the field that a path ends in, and whether the struct is in that path alone.

    Both are empty where there is no such field.
    """
    owner, field, alone = "", "", True
    for part in path.split("."):
        if field:
            alone = alone and users[name] == {(owner, field)}
        owner, field = name, part.removesuffix("[]")
        spec = definitions.get(owner, {}).get("fields", {}).get(field)
        if spec is None:
            return "", "", False
        name = _element(spec["t"])
    return owner, field, alone


def _element(kind: str) -> str:
    return _WRAPPED.sub("", kind)

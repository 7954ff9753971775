"""Defaults that functions of a tree set, given to fields that the base release does not have.

Kubeskew's own code sets the defaults of the base's fields, with their conditions; it does not know new ones.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Document = dict[str, Any]

_WRAPPED = re.compile(r"^(\[\]|\{\}|'[^']*')+")


def with_defaults(
    definitions: Mapping[str, Document], base: Mapping[str, Document], read: Document
) -> dict[str, Document]:
    """Both releases as `types.release` makes them; `read` is as kubeskew/releases/tree/defaults.py has it.

    A definition has the defaults of its new fields as `pd`, by path.
    """
    found = dict(definitions)
    for name, path, default, guarded in _new(definitions, base, read):
        if guarded:
            found[name] = found[name] | {"pd": found[name].get("pd", {}) | {path: default}}
    return found


def without_defaults(
    definitions: Mapping[str, Document], base: Mapping[str, Document], read: Document
) -> list[str]:
    """New fields that get no default, although a function sets them or may set them."""
    guarded = [f"{name}: {path}" for name, path, _, guarded in _new(definitions, base, read) if not guarded]
    unread = [
        f"{function}: {path}"
        for function, name, paths in read["unread"]
        for path in paths
        if _is_new(definitions, base, *_place(definitions, name, path))
    ]
    return guarded + unread


def _new(
    definitions: Mapping[str, Document], base: Mapping[str, Document], read: Document
) -> Iterator[tuple[str, str, Any, bool]]:
    """The definition, path and default of each new field.

    A default that a function sets behind a gate counts only if the field is behind the gate itself, which
    drops it where the gate is off: the last is whether it does.
    """
    for name, by_path in read["defaults"].items():
        for path, default in by_path.items():
            owner, field = _place(definitions, name, path)
            if _is_new(definitions, base, owner, field):
                gates = definitions[owner]["fields"][field].get("g", ())
                yield name, path, default["d"], set(default.get("g", ())) <= set(gates)


def _is_new(
    definitions: Mapping[str, Document], base: Mapping[str, Document], owner: str, field: str
) -> bool:
    return owner in definitions and field not in base.get(owner, {}).get("fields", {})


def _place(definitions: Mapping[str, Document], name: str, path: str) -> tuple[str, str]:
    """The struct and the field that a path ends in; both are empty where there is no such field."""
    owner, field = "", ""
    for part in path.split("."):
        owner, field = name, part.removesuffix("[]")
        spec = definitions.get(owner, {}).get("fields", {}).get(field)
        if spec is None:
            return "", ""
        name = _WRAPPED.sub("", spec["t"])
    return owner, field

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
    """Both releases as `types.release` makes them; also the paths of new fields that get no default.

    A definition has the defaults of its new fields as `pd`, by path. One that its function sets behind a gate
    counts only if the field is behind the gate itself, which drops it where the gate is off.
    """
    found = dict(definitions)
    left = []
    for name, by_path in defaults.items():
        for path, default in by_path.items():
            owner, field = _place(definitions, name, path)
            if not owner or field in base.get(owner, {}).get("fields", {}):
                continue
            if not set(default.get("g", ())) <= set(definitions[owner]["fields"][field].get("g", ())):
                left.append(f"{name}: {path}")
                continue
            found[name] = found[name] | {"pd": found[name].get("pd", {}) | {path: default["d"]}}
    return found, left


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

"""Decides whether a workload meets a known bug: its trigger describes objects that may.

A trigger is a list of alternatives `{kind, fields: {PATH: VALUE}}`. A part of a path that ends in `[]` means
any item of a list; the value `*` means any that is there. A template of pods, jobs or claims counts as one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.known_bugs import KnownBug

_ANY = "*"


def meets(bug: KnownBug, objects: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether any of the objects, or of what they make, is what the bug's trigger describes."""
    made = [each for obj in objects for each in with_made(obj)]
    return any(_matches(alternative, obj) for alternative in bug.trigger for obj in made)


def with_made(obj: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Returns the object, the items of a list, and what its templates make."""
    yield obj
    found = obj.get("spec")
    spec: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    for item in obj.get("items") or () if str(obj.get("kind", "")).endswith("List") else ():
        yield from with_made(item)
    if isinstance(spec.get("template"), Mapping):
        yield {**spec["template"], "kind": "Pod"}
    if isinstance(spec.get("jobTemplate"), Mapping):
        yield from with_made({**spec["jobTemplate"], "kind": "Job"})
    if obj.get("kind") == "ResourceClaimTemplate":
        yield {**spec, "kind": "ResourceClaim"}


def _matches(alternative: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:
    if alternative["kind"] != obj.get("kind"):
        return False
    fields: Mapping[str, Any] = alternative.get("fields") or {}
    return all(_has(obj, path, wanted) for path, wanted in fields.items())


def _has(obj: Any, path: str, wanted: Any) -> bool:
    values = list(_values(obj, path.split(".")))
    return bool(values) if wanted == _ANY else any(value == wanted for value in values)


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        if value not in (None, "", [], {}):
            yield value
        return
    name, rest = path[0], path[1:]
    items = isinstance(value, Mapping) and value.get(name.removesuffix("[]"))
    if not name.endswith("[]"):
        if isinstance(value, Mapping) and name in value:
            yield from _values(value[name], rest)
    elif isinstance(items, list):
        for item in items:
            yield from _values(item, rest)

"""Finds the fields of stored objects that a release does not know, and whether it knows their kind."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from kubeskew.apimachinery.catalogue.types import Types
from kubeskew.apimachinery.golang.known_fields import known_fields
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.versions import SUPPORTED, Version

# Steps to a value: names of fields; of an item of a list its name (`name=x`) or its place (`0`).
Path = tuple[str, ...]


@cache
def _types(version: str) -> Types:
    return Types(Version.parse(version))


@cache
def _schema(version: str, api_version: str, kind: str) -> Schema | None:
    group, _, name = api_version.rpartition("/")
    return _types(version).of_kind(group, name, kind)


@cache
def _is_built_in(api_version: str, kind: str) -> bool:
    return any(_schema(str(version), api_version, kind) is not None for version in SUPPORTED)


def unreadable(version: str, obj: ObjectView) -> str:
    """Returns why a server of the version cannot decode an object, as upstream says it; empty if it can."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    if _schema(version, api_version, kind) is not None or not _is_built_in(api_version, kind):
        return ""
    return f'no kind "{kind}" is registered for version "{api_version}"'


def unknown_fields(version: str, obj: ObjectView) -> list[Path]:
    """Returns the paths of the fields of an object that a release does not know; of custom resources none."""
    schema = _schema(version, str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))
    if schema is None or known_fields(obj, schema) is obj:  # finding the paths takes five times as long
        return []
    return _unknown(obj, schema)


def _unknown(value: ObjectView | list[Any], schema: Schema) -> list[Path]:
    """Returns the paths, from the value on, of what the schema does not have."""
    below: list[tuple[str, Any, Schema]] = []
    found: list[Path] = []
    if isinstance(value, list):
        if schema.items is not None:
            below = [(_step(index, entry), entry, schema.items) for index, entry in enumerate(value)]
    elif schema.kind is Kind.OBJECT and not schema.preserve_unknown:
        for name, entry in value.items():
            field = schema.fields.get(name)
            if field is None:
                found.append((name,))
            else:
                below.append((name, entry, field.schema))
    elif schema.kind is Kind.MAP and schema.items is not None:
        below = [(name, entry, schema.items) for name, entry in value.items()]
    for step, entry, its_schema in below:
        if isinstance(entry, dict | list):
            found += [(step, *path) for path in _unknown(entry, its_schema)]
    return found


def _step(index: int, entry: Any) -> str:
    named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
    return f"name={entry['name']}" if named else str(index)


def value_at(obj: Any, path: Path) -> Any:
    """Returns the value at a path; None if there is none, `MISSING` if a list on the way lacks the item."""
    for step in path:
        if isinstance(obj, list):
            key, equal, name = step.partition("=")
            if equal and key == "name":
                obj = next(
                    (each for each in obj if isinstance(each, Mapping) and each.get("name") == name), MISSING
                )
            else:
                obj = obj[int(step)] if int(step) < len(obj) else MISSING
        elif isinstance(obj, Mapping):
            obj = obj.get(step)
        if obj is None or obj is MISSING:
            return obj
    return obj


MISSING = object()  # an item that was taken out of a list takes its fields with it: nothing is lost silently

"""Defaults of the schema come first, then those of the kind, whose functions share these helpers.

The schema's come from markers (`+default=`), in imported releases also from functions of known shapes, and
for custom resources from their definition.
"""

import copy
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.index import GROUP_PACKAGES, registered_in

Walk = Callable[[Any], None]

_TYPE_PREFIX = r"^io\.k8s\.(api\.|.*\.pkg\.apis\.)"  # before the group in OpenAPI names


class DefaultingContext(NamedTuple):
    """Defaults depend on the server's version and gates, and on the time of the request."""

    features: Features
    now: datetime

    @property
    def timestamp(self) -> str:
        return timestamp(self.now)


Defaulter = Callable[[Object, DefaultingContext], None]


def fill(obj: Object, **values: Any) -> None:
    """Fields are set if they are unset or empty (Go's zero value of a non-pointer)."""
    for name, value in values.items():
        if not obj.get(name):
            obj[name] = value


def fill_null(obj: Object, **values: Any) -> None:
    """Fields are set if they are absent (nil in Go): an explicit zero stays, and so does an empty list."""
    for name, value in values.items():
        if given(obj, name) is None:
            obj[name] = value


def struct(obj: Object, name: str) -> Object:
    """The field is made if it is absent."""
    found: Object | None = obj.get(name)
    if found is None:
        found = obj[name] = {}
    return found


def each(obj: Object, *names: str) -> list[Object]:
    return [item for name in names for item in obj.get(name) or ()]


def apply_defaults(obj: Object, schema: Schema, context: DefaultingContext) -> Object:
    """`obj` is normalised and in its schema's version; it is changed and returned."""
    walk = schema_defaults(schema)
    if walk is not None:
        walk(obj)
    defaulter = defaulter_of(schema.name)
    if defaulter is not None:
        defaulter(obj, context)
    return obj


@cache
def defaulter_of(type_name: str) -> Defaulter | None:
    """`type_name` is an OpenAPI name (`io.k8s.api.core.v1.Pod`)."""
    room, _, name = re.sub(_TYPE_PREFIX, "", type_name).partition(".")
    defaulter: Defaulter | None = (
        registered_in(room, "DEFAULTS", name) if room in GROUP_PACKAGES.values() else None
    )
    return defaulter


@lru_cache(maxsize=4096)
def schema_defaults(schema: Schema) -> Walk | None:
    """None means that the schema itself sets no defaults."""
    return _walk(schema) if _has_defaults(schema, set()) else None


def _has_defaults(schema: Schema | None, seen: set[int]) -> bool:
    if schema is None or id(schema) in seen:
        return False
    seen.add(id(schema))
    return (
        bool(schema.path_defaults)
        or _has_defaults(schema.items, seen)
        or any(
            (field.has_default and _writes(field.default, pointer=field.pointer))
            or _has_defaults(field.schema, seen)
            for field in schema.fields.values()
        )
    )


def _writes(default: Any, *, pointer: bool) -> bool:
    """An empty default of a field that is no pointer does not show."""
    return pointer or default not in ("", 0, False, None)


def _walk(schema: Schema) -> Walk:
    if schema.kind is Kind.OBJECT:
        return _walk_struct(schema)
    items = schema.items

    def each(value: Any) -> None:
        inner = schema_defaults(items) if items is not None else None
        if inner is None:
            return
        found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for item in found:
            inner(item)

    return each


def _walk_struct(schema: Schema) -> Walk:
    own: dict[str, tuple[Any, bool]] = {}
    nested: dict[str, Walk] = {}
    paths = [(path.split("."), default) for path, default in schema.path_defaults.items()]

    def prepare() -> None:
        for name, field in schema.fields.items():
            if field.has_default and _writes(field.default, pointer=field.pointer):
                own[name] = (field.default, field.pointer)
            if (walk := schema_defaults(field.schema)) is not None:
                nested[name] = walk

    def run(value: Any) -> None:
        if not isinstance(value, dict):
            return
        if not (own or nested):  # made late: schemas may be recursive
            prepare()
        for name, (default, pointer) in own.items():
            if value.get(name) is None or (not pointer and value[name] in {"", 0}):
                value[name] = copy.deepcopy(default)
        _fill_paths(value, schema, paths)
        for name, walk in nested.items():
            if name in value:
                walk(value[name])

    return run


def _fill_paths(value: Object, schema: Schema, paths: Sequence[tuple[list[str], Any]]) -> None:
    for steps, default in paths:
        _fill_path(value, schema, steps, default)


def _fill_path(value: Object, schema: Schema, steps: Sequence[str], default: Any) -> None:
    """Structs on the way are made unless they are pointers in Go; `[]` goes on in each item of a list."""
    name = steps[0].removesuffix("[]")
    field = schema.fields.get(name)
    if field is None or not isinstance(value, dict):
        return
    found = value.get(name)
    if len(steps) == 1:
        writes = _writes(default, pointer=field.pointer)
        if writes and (found is None or (not field.pointer and found in ("", 0))):
            value[name] = copy.deepcopy(default)
    elif steps[0] != name:
        items = field.schema.items
        for item in found if isinstance(found, list) else ():
            if items is not None:
                _fill_path(item, items, steps[1:], default)
    elif found is not None or not field.pointer:
        _fill_path(struct(value, name), field.schema, steps[1:], default)

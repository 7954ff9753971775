"""Drops the fields of an object that a Go struct does not have, and leaves all else as it is.

The typed client of a release decodes objects so. An older component that puts an object back thus takes a new
field away, even through a new server (kubernetes/kubernetes#46073). Kinds that the release does not have stay
as they are: custom resources are decoded without types.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.versions import Version

Walk = Callable[[Any], Any]

_KEPT_SCHEMAS: Final = 4096
_DROPPED: Final = object()
Decode = Callable[[Object], Object]


def known_fields(value: Any, schema: Schema) -> Any:
    """Drops fields that the schema does not have; the result is `value` itself if there are none.

    A value of another type than the schema's is left as it is. Does not change its arguments.
    """
    walk = _walk(schema)
    return value if walk is None else walk(value)


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _walk(schema: Schema) -> Walk | None:
    """Made once per schema; None where no struct is below."""
    if schema.kind is Kind.OBJECT:
        return None if schema.preserve_unknown and not schema.fields else _object(schema)
    if schema.kind not in {Kind.LIST, Kind.MAP} or schema.items is None:
        return None
    inner = _walk(schema.items)
    if inner is None:
        return None
    return _list(inner) if schema.kind is Kind.LIST else _map(inner)


def _object(schema: Schema) -> Walk:
    walks: dict[str, Walk | None] = {}
    fields, other = schema.fields, None if schema.preserve_unknown else _drop

    def run(value: Any) -> Any:
        if value.__class__ is not dict:
            return value
        if not walks:  # filled in later: schemas may be recursive
            walks.update({name: _walk(field.schema) for name, field in fields.items()})
        changed: dict[str, Any] | None = None
        for key, item in value.items():
            walk = walks.get(key, other)
            if walk is None or (known := walk(item)) is item:
                continue
            changed = {**value} if changed is None else changed
            if known is _DROPPED:
                del changed[key]
            else:
                changed[key] = known
        return value if changed is None else changed

    return run


def _drop(_: Any) -> Any:
    return _DROPPED


def _list(inner: Walk) -> Walk:
    def run(value: Any) -> Any:
        if value.__class__ is not list:
            return value
        changed: list[Any] | None = None
        for at, item in enumerate(value):
            known = inner(item)
            if known is not item:
                changed = [*value] if changed is None else changed
                changed[at] = known
        return value if changed is None else changed

    return run


def _map(inner: Walk) -> Walk:
    def run(value: Any) -> Any:
        if value.__class__ is not dict:
            return value
        changed: dict[str, Any] | None = None
        for key, item in value.items():
            known = inner(item)
            if known is not item:
                changed = {**value} if changed is None else changed
                changed[key] = known
        return value if changed is None else changed

    return run


def as_is(obj: Object) -> Object:
    """Keeps all that the server has sent, as dynamic clients do."""
    return obj


@cache
def decoder(version: Version) -> Decode:
    """Decodes by the types of a release; made once per process."""
    catalogue = catalogue_for(version)
    schemas: dict[tuple[str, str], Schema | None] = {}

    def decode(obj: Object) -> Object:
        kind = obj.get("apiVersion") or "", obj.get("kind") or ""
        if kind not in schemas:
            group, _, version = kind[0].rpartition("/")
            schemas[kind] = catalogue.kind_schema(group, version, kind[1])
        schema = schemas[kind]
        if schema is None:
            return obj
        known: Object = known_fields(obj, schema)
        return known

    return decode

"""Turns empty lists into absent ones, as protobuf does, in which upstream stores built-in objects.

Only fields without `omitempty` show it: `rules: []` of a role is read again as `rules: null`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from kubeskew.apimachinery.schema import Field, Kind, Schema

_Walk = Callable[[Any], None]
_JSON_STORED: Final = ("io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")
_COLLECTIONS: Final = (Kind.LIST, Kind.MAP)


def forget_empty_lists(obj: Any, schema: Schema) -> None:
    """Make null, in place, what is empty in `obj` and always written."""
    walk = None if schema.name.startswith(_JSON_STORED) else _walk_of(schema)
    if walk is not None:
        walk(obj)


@lru_cache(maxsize=4096)
def _walk_of(schema: Schema) -> _Walk | None:
    """Returns the walk to the fields in question; None where a schema has none, as most."""
    if schema.items is not None:
        inner = _walk_of(schema.items)
        return None if inner is None else _each(inner, schema.kind)
    steps = [step for name, field in schema.fields.items() if (step := _step(name, field))]
    return _struct(steps) if steps else None


def _step(name: str, field: Field) -> tuple[str, bool, _Walk | None] | None:
    nulls = field.schema.kind in _COLLECTIONS and not field.omit_empty
    inner = _walk_of(field.schema)
    return (name, nulls, inner) if nulls or inner is not None else None


def _struct(steps: list[tuple[str, bool, _Walk | None]]) -> _Walk:
    def walk(value: Any) -> None:
        for name, nulls, inner in steps:
            held = value.get(name)
            if held:
                if inner is not None:
                    inner(held)
            elif nulls:
                value[name] = None

    return walk


def _each(inner: _Walk, kind: Kind) -> _Walk:
    def walk(value: Any) -> None:
        for item in value.values() if kind is Kind.MAP else value:
            inner(item)

    return walk

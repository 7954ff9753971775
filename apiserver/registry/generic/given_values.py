"""Gives values in errors the empty lists and maps back that decoding dropped: Go shows `[]`, not null.

An object is stored, and written, without them; only errors tell an empty list from none.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kubeskew.apimachinery.catalogue.types import META
from kubeskew.apimachinery.field import FieldError, InternalValue, RenderedValue
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.schema import Field, Kind, Schema

_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_EMPTIED = (Kind.LIST, Kind.MAP)


def with_given(
    problems: Sequence[FieldError], schema: Schema, given: Callable[[], Any] | None, gates: FeatureGates
) -> Sequence[FieldError]:
    """`given` returns the object as the client sent it."""
    if given is None or not any(_has_parts(problem.value) for problem in problems):
        return problems
    sent = given()
    return [_with_given(problem, schema, sent, gates) for problem in problems]


def schema_at(schema: Schema | None, path: str) -> Schema | None:
    """None if the schema has no such field."""
    for name, item in _STEP.findall(path):
        if schema is None:
            return None
        if name:
            field = schema.fields.get(name)
            schema = field.schema if field is not None else None
        elif item:
            schema = schema.items
    return schema


def _has_parts(value: Any) -> bool:
    return value is None or isinstance(value, dict | list | InternalValue | RenderedValue)


def _with_given(problem: FieldError, schema: Schema, sent: Any, gates: FeatureGates) -> FieldError:
    value = problem.value
    if not _has_parts(value):
        return problem
    for path in (problem.path, f"spec.{problem.path}"):  # some errors leave out where they are
        found, piece = schema_at(schema, path), _sent_at(sent, path)
        if found is not None and piece is not None:
            break
    else:
        return problem
    if isinstance(value, InternalValue | RenderedValue):
        return replace(problem, value=replace(value, value=_grafted(value.value, piece, found, gates)))
    if value is None or isinstance(value, list):  # a struct with JSON names is written without them
        return replace(problem, value=_grafted(value, piece, found, gates, fields=False))
    return problem


def _sent_at(value: Any, path: str) -> Any:
    """None if nothing is there."""
    for name, item in _STEP.findall(path):
        if isinstance(value, list) and item.isdigit() and int(item) < len(value):
            value = value[int(item)]
        elif isinstance(value, dict):
            value = value.get(name or item)
        else:
            return None
    return value


def _grafted(value: Any, sent: Any, schema: Schema, gates: FeatureGates, *, fields: bool = True) -> Any:
    """`fields`: also of structs within."""
    if value is None:
        return sent if sent in ([], {}) and schema.kind in _EMPTIED else None
    if isinstance(value, list) and isinstance(sent, list) and len(value) == len(sent):
        items = schema.items
        if items is None:
            return value
        pairs = zip(value, sent, strict=True)
        return [_grafted(ours, theirs, items, gates, fields=fields) for ours, theirs in pairs]
    if not fields or not isinstance(value, dict) or not isinstance(sent, dict) or _has_json_names(schema):
        return value
    made = dict(value)
    for name, piece in sent.items():
        field = schema.fields.get(name)
        below = schema.items if schema.kind is Kind.MAP else field.schema if field is not None else None
        if below is None:
            continue
        if value.get(name) is not None:
            made[name] = _grafted(value[name], piece, below, gates)
        elif piece in ([], {}) and below.kind in _EMPTIED and _is_enabled(field, gates):
            made[name] = piece
    return made


def _has_json_names(schema: Schema) -> bool:
    """JSON leaves out their empty lists; these types are internal ones, too."""
    return schema.name.startswith(META)


def _is_enabled(field: Field | None, gates: FeatureGates) -> bool:
    return field is None or not any(gates.is_off(name) for name in field.gates)

"""Pruning of decoded objects: unknown fields of custom resources, empty lists of built-in ones.

Types are not looked at (validation does), except those of metadata, which is a Go struct here too.

Only fields without `omitempty` show it: `rules: []` of a role is read again as `rules: null`.

Source: apiextensions-apiserver pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer), 1.36.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.go_formats import as_written
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.roundtrip import normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.structuralschema import Structural, objects, prune

_META = "metadata"
_Walk = Callable[[Any], None]
_JSON_STORED: Final = ("io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")
_COLLECTIONS: Final = (Kind.LIST, Kind.MAP)


def coerce(
    value: Object, structural: Structural, metadata: Schema | None, *, drop_invalid: bool = False
) -> tuple[Object, list[str]]:
    """Copies and prunes a custom resource, and lists what was dropped: `unknown field "a.b"`.

    Raises WrongShape for metadata that does not fit, CoercionError for that of an embedded resource unless
    `drop_invalid`. Stored objects are read with `drop_invalid`; their numbers are as they are written again.


    """
    copied = as_written if drop_invalid else _copied
    kept: Object = {name: copied(item) for name, item in value.items() if name != _META}
    dropped: list[str] = []
    if metadata is not None and _META in value:
        given = {} if value[_META] is None else value[_META]
        kept[_META], lost = normalise_and_report(given, metadata)
        if lost:
            strict = decode_errors.strict_errors(value[_META], metadata)
            dropped += [
                f'unknown field "metadata.{error[15:]}' for error in strict if error.startswith("unknown")
            ]
    elif _META in value:
        kept[_META] = value[_META]
    unknown = prune(kept, structural)
    unknown += objects.coerce(kept, structural, drop_invalid=drop_invalid)
    return kept, [*dropped, *(f'unknown field "{path}"' for path in unknown)]


def duplicates(value: Any, path: str = "") -> Iterator[str]:
    """Each key given twice is a `duplicate field "a.b"`, in the order of the document."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from duplicates(item, index(path, position))
    elif isinstance(value, dict):
        for key, item, again in decode_errors.members(value):
            at = child(path, key)
            if again:
                yield f'duplicate field "{at}"'
            yield from duplicates(item, at)


def _copied(value: Any) -> Any:
    """Numbers beyond 64 bits become floats, as Go holds them."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def forget_empty_lists(obj: Any, schema: Schema) -> None:
    """Makes null, in place, what is empty in `obj` and always written."""
    walk = None if schema.name.startswith(_JSON_STORED) else _walk_of(schema)
    if walk is not None:
        walk(obj)


@lru_cache(maxsize=4096)
def _walk_of(schema: Schema) -> _Walk | None:
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

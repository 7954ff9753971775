"""Prunes custom resources as decoding does: fields that the schema does not have go, the rest stays as sent.

Types are not looked at (validation does), except those of metadata, which is a Go struct here too.
Source: apiextensions-apiserver pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer), 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.go_numbers import as_written
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.roundtrip import normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.structuralschema import Structural, embedded, prune

_META = "metadata"


def coerce(
    value: Object, structural: Structural, metadata: Schema | None, *, drop_invalid: bool = False
) -> tuple[Object, list[str]]:
    """Returns the pruned copy of a custom resource, and what was dropped: `unknown field "a.b"`.

    Raises WrongShape for metadata that does not fit, CoercionError for that of an embedded resource unless
    `drop_invalid`, as it is with what is stored: there numbers are as they are written again, too.
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
    unknown += embedded.coerce(kept, structural, drop_invalid=drop_invalid)
    return kept, [*dropped, *(f'unknown field "{path}"' for path in unknown)]


def duplicates(value: Any, path: str = "") -> Iterator[str]:
    """`duplicate field "a.b"` for every key given twice, in the order of the document."""
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
    """Returns a copy as Go holds it: numbers have 64 bits."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value

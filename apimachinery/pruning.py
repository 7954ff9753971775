"""What decoding does to a custom resource: fields that its schema does not have go, the rest stays as sent.

Types are not looked at (validation does), except those of metadata, which is a Go struct here too.
Source: apiextensions-apiserver pkg/apiserver/schema/pruning and objectmeta, 1.36.
"""

from typing import Any

from apimachinery.normalising import normalise_and_report
from apimachinery.schema import Kind, Schema

_TOP = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: Schema) -> tuple[Any, bool]:
    """The pruned copy of a custom resource, and whether a field was dropped; WrongShape for metadata."""
    unknown: list[str] = []
    body = {key: item for key, item in value.items() if key not in _TOP}
    kept = _prune(body, schema, unknown)
    metadata = schema.fields.get("metadata")
    dropped = False
    if metadata is not None:
        kept["metadata"], dropped = normalise_and_report(value.get("metadata") or {}, metadata.schema)
    elif "metadata" in value:
        kept["metadata"] = value["metadata"]
    return kept, bool(unknown) or dropped


def _prune(value: Any, schema: Schema | None, unknown: list[str]) -> Any:
    if schema is None or schema.kind is Kind.ANY:
        return _plain(value)
    if isinstance(value, dict) and schema.kind is Kind.MAP:
        return {key: _prune(item, schema.items, unknown) for key, item in value.items()}
    if isinstance(value, dict) and schema.kind is Kind.OBJECT:
        kept = {}
        for key, item in value.items():
            field = schema.fields.get(key)
            if field is not None:
                kept[key] = _prune(item, field.schema, unknown)
            elif schema.preserve_unknown:
                kept[key] = _plain(item)
            else:
                unknown.append(key)
        return kept
    if isinstance(value, list) and schema.kind is Kind.LIST:
        return [_prune(item, schema.items, unknown) for item in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    """A copy in which whole floats are integers, as Go writes them (`3.0` is sent back as `3`)."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value

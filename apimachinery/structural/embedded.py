"""The metadata of embedded resources: made fit for its Go type, and validated.

Source: apiextensions-apiserver pkg/apiserver/schema/objectmeta, 1.36.
"""

from collections.abc import Iterator
from typing import Any

from apimachinery import shapes
from apimachinery.catalogue.types import OBJECT_META, types_of
from apimachinery.errors import Object
from apimachinery.field import FieldError, index, invalid, required
from apimachinery.normalising import WrongShape, normalise, normalise_and_report
from apimachinery.schema import Schema
from apimachinery.structural.model import Structural
from apimachinery.structural.paths import child, key
from apimachinery.validation.names import dns1035_label, path_segment
from apimachinery.validation.object_meta import validate_object_meta


class CoercionError(ValueError):
    """Metadata of an embedded resource that its type cannot hold; the text is the field error's."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def metadata_schema(structural: Structural) -> Schema:
    """ObjectMeta of the release."""
    return types_of(structural.rules.minor)[OBJECT_META]


def coerce(
    obj: Any, structural: Structural, path: str = "", *, drop_invalid: bool = False, root: bool = False
) -> list[str]:
    """Make apiVersion, kind and metadata of embedded resources fit, in place.

    Returns the paths of unknown metadata fields, which go. With `drop_invalid` so does what does not fit
    (objects in storage); otherwise that raises CoercionError. At the root nothing is done unless `root`.
    """
    unknown: list[str] = []
    if structural.has_embedded or root:
        _coerce(obj, structural, path, drop_invalid, unknown, root)
    return unknown


def _coerce(value: Any, node: Structural, path: str, drop: bool, unknown: list[str], embedded: bool) -> None:
    if isinstance(value, dict):
        if embedded:
            _coerce_resource(value, node, path, drop, unknown)
        for name, item in value.items():
            below = node.properties.get(name)
            if below is not None:
                _coerce(item, below, child(path, name), drop, unknown, below.embedded)
            elif node.additional is not None:
                at = key(path, name) if not path else f"{path}.{name}"
                _coerce(item, node.additional, at, drop, unknown, node.additional.embedded)
    elif isinstance(value, list) and node.items is not None:
        for position, item in enumerate(value):
            _coerce(item, node.items, index(path, position), drop, unknown, node.items.embedded)


def _coerce_resource(value: Object, node: Structural, path: str, drop: bool, unknown: list[str]) -> None:
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            if not drop:
                raise CoercionError(invalid(child(path, name), value[name], "must be a string"))
            del value[name]
    if "metadata" not in value:
        return
    schema, at = metadata_schema(node), child(path, "metadata")
    try:
        metadata, dropped = normalise_and_report(value["metadata"], schema)
    except WrongShape:
        if not drop:
            why = shapes.explain(value["metadata"], schema)
            raise CoercionError(invalid(at, value["metadata"], why)) from None
        metadata, dropped = _fitting(value["metadata"], schema), False
    if dropped:
        known = "unknown field "
        unknown.extend(
            child(at, text.removeprefix(known).strip('"'))
            for text in shapes.strict_errors(value["metadata"], schema)
            if text.startswith(known)
        )
    if metadata is None:
        del value["metadata"]
    else:
        value["metadata"] = metadata


def _fitting(metadata: Any, schema: Schema) -> Object | None:
    """The fields of malformed metadata that fit."""
    if not isinstance(metadata, dict):
        return None
    kept: Object = {}
    for name, item in metadata.items():
        try:
            kept |= normalise({name: item}, schema)
        except WrongShape:
            continue
    return kept


# --- validation ------------------------------------------------------------------------------------------


def validate_embedded(
    value: Any, node: Structural, path: str = "", *, root: bool = False
) -> list[FieldError]:
    """Faults of apiVersion, kind and metadata of embedded resources (of the root only if `root`)."""
    return list(_validate(value, node, path, root)) if node.has_embedded or root else []


def _validate(value: Any, node: Structural, path: str, embedded: bool) -> Iterator[FieldError]:
    if isinstance(value, dict):
        if embedded:
            yield from _validate_resource(value, node, path)
        for name, item in value.items():
            below = node.properties.get(name)
            if below is not None:
                yield from _validate(item, below, child(path, name), below.embedded)
            elif node.additional is not None:
                yield from _validate(item, node.additional, key(path, name), node.additional.embedded)
    elif isinstance(value, list) and node.items is not None:
        for position, item in enumerate(value):
            yield from _validate(item, node.items, index(path, position), node.items.embedded)


def _validate_resource(value: Object, node: Structural, path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        at = child(path, name)
        if name not in value or value[name] == "":
            yield required(at)
        elif not isinstance(value[name], str):
            yield invalid(at, value[name], "must be a string")
        elif name == "apiVersion" and value[name].count("/") > 1:
            yield invalid(at, value[name], f"unexpected GroupVersion string: {value[name]}")
        elif name == "kind":
            faults = dns1035_label(value[name].lower())
            if faults:
                text = f"may have mixed case, but should otherwise match: {','.join(faults)}"
                yield invalid(at, value[name], text)
    if "metadata" in value:
        yield from _validate_metadata(value["metadata"], node, child(path, "metadata"))


def _validate_metadata(value: Any, node: Structural, path: str) -> Iterator[FieldError]:
    schema = metadata_schema(node)
    try:
        metadata = normalise(value, schema) or {}
    except WrongShape:
        yield invalid(path, value, shapes.explain(value, schema))
        return
    named = {**metadata, "name": metadata.get("name") or "fakename"}
    yield from validate_object_meta(named, bool(named.get("namespace")), path_segment, path, core=False)

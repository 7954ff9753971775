"""Validates the metadata of embedded resources, made fit for its Go type.

Source: apiextensions-apiserver pkg/apiserver/schema/objectmeta, 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.catalogue.types import OBJECT_META, types_of
from kubeskew.apimachinery.field import FieldError, index, invalid, required
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise, normalise_and_report
from kubeskew.apimachinery.names import dns1035_label, path_segment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.object_meta import validate_object_meta
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.paths import Key, Path, bracketed, child, key


class CoercionError(ValueError):
    """Metadata of an embedded resource that its type cannot hold; the text is the field error's."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def metadata_schema(structural: Structural) -> Schema:
    """Returns the ObjectMeta of the release."""
    return types_of(structural.features.version)[OBJECT_META]


def coerce(
    obj: Any, structural: Structural, path: str = "", *, drop_invalid: bool = False, root: bool = False
) -> list[str]:
    """Makes apiVersion, kind and metadata of embedded resources fit, in place.

    Returns the paths of unknown metadata fields, which go. With `drop_invalid` so does what does not fit
    (objects in storage); otherwise that raises CoercionError. At the root nothing is done unless `root`.
    """
    if not structural.has_embedded and not root:
        return []
    walk = _Coercion(path, drop_invalid)
    walk.walk(obj, structural, None, root)
    return walk.unknown


class _Coercion:
    def __init__(self, prefix: str, drop: bool) -> None:
        self.unknown: list[str] = []
        self._prefix = prefix
        self._drop = drop

    def walk(self, value: Any, node: Structural, path: Path, embedded: bool) -> None:
        if isinstance(value, dict):
            if embedded:
                self._resource(value, node, path)
            for name, item in value.items():
                below = node.properties.get(name)
                if below is not None:
                    self.walk(item, below, (path, name), below.embedded)
                elif node.additional is not None:
                    self.walk(item, node.additional, (path, Key(name)), node.additional.embedded)
        elif isinstance(value, list) and node.items is not None:
            for position, item in enumerate(value):
                self.walk(item, node.items, (path, position), node.items.embedded)

    def _resource(self, value: Object, node: Structural, path: Path) -> None:
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                if not self._drop:
                    at = bracketed((path, name), self._prefix)
                    raise CoercionError(invalid(at, value[name], "must be a string"))
                del value[name]
        if "metadata" in value:
            self._metadata(value, metadata_schema(node), (path, "metadata"))

    def _metadata(self, value: Object, schema: Schema, path: Path) -> None:
        given = value["metadata"]
        try:
            metadata, dropped = normalise_and_report(given, schema)
        except WrongShape:
            if not self._drop:
                at = bracketed(path, self._prefix)
                raise CoercionError(invalid(at, given, decode_errors.explain(given, schema))) from None
            metadata, dropped = _fitting(given, schema), False
        if dropped:
            known = "unknown field "
            self.unknown.extend(
                child(bracketed(path), text.removeprefix(known).strip('"'))
                for text in decode_errors.strict_errors(given, schema)
                if text.startswith(known)
            )
        if metadata is None:
            del value["metadata"]
        else:
            value["metadata"] = metadata


def _fitting(metadata: Any, schema: Schema) -> Object | None:
    """Returns the fields of malformed metadata that fit."""
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
    """Returns errors of apiVersion, kind and metadata of embedded resources (of the root only if `root`)."""
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
        if name not in value:
            yield required(at)
        elif value[name] == "":
            yield invalid(at, "", "must not be empty")
        elif not isinstance(value[name], str):
            yield invalid(at, value[name], "must be a string")
        elif name == "apiVersion" and value[name].count("/") > 1:
            yield invalid(at, value[name], f"unexpected GroupVersion string: {value[name]}")
        elif name == "kind":
            messages = dns1035_label(value[name].lower())
            if messages:
                text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
                yield invalid(at, value[name], text)
    if "metadata" in value:
        yield from _validate_metadata(value["metadata"], node, child(path, "metadata"))


def _validate_metadata(value: Any, node: Structural, path: str) -> Iterator[FieldError]:
    schema = metadata_schema(node)
    try:
        metadata = normalise(value, schema) or {}
    except WrongShape:
        yield invalid(path, value, decode_errors.explain(value, schema))
        return
    named = {**metadata, "name": metadata.get("name") or "fakename"}
    yield from validate_object_meta(named, bool(named.get("namespace")), path_segment, path, core=False)

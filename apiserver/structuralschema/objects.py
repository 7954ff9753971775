"""Validates a custom resource as a whole: values, embedded metadata, list types and rules.

Sources: apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go, 1.36; apiextensions-apiserver
pkg/apiserver/schema/objectmeta, 1.36; apiextensions-apiserver
pkg/registry/customresource/{strategy,status_strategy,validator}.go, 1.36.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kubeskew.apimachinery.catalogue.types import OBJECT_META, types_of
from kubeskew.apimachinery.field import ErrorType, FieldError, duplicate, index, invalid, required
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise, normalise_and_report
from kubeskew.apimachinery.names import dns1035_label, path_segment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.object_meta import validate_object_meta
from kubeskew.apiserver.structuralschema.expressions import validate_rules
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.validation_errors import (
    NIL,
    Key,
    Path,
    ValidationError,
    bracketed,
    child,
    key,
    sorted_maps,
)
from kubeskew.apiserver.structuralschema.values import NOTHING, NodeCheck

_UNSPECIFIED = object()
_BLOCKING = frozenset(
    {
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def validate_lists(value: Any, node: Structural, path: str = "") -> list[FieldError]:
    return list(_walk_lists(value, node, path)) if node.has_keyed_lists else []


def _walk_lists(value: Any, node: Structural, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict | list):
                if node.additional is not None and node.additional.has_keyed_lists:
                    yield from _walk_lists(item, node.additional, key(path, name))
                below = node.properties.get(name)
                if below is not None and below.has_keyed_lists:
                    yield from _walk_lists(item, below, child(path, name))
    elif isinstance(value, list):
        if node.list_type == "set":
            for position in repeated(value):
                yield duplicate(index(path, position), sorted_maps(value[position]))
        elif node.list_type == "map":
            yield from _map_list(value, node, path)
        if node.items is not None and node.items.has_keyed_lists:
            for position, item in enumerate(value):
                yield from _walk_lists(item, node.items, index(path, position))


def _map_list(value: list[Any], node: Structural, path: str) -> Iterator[FieldError]:
    for position, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(index(path, position), item, "must be an object for an array of list-type map")
            return
    if len(node.list_keys) == 1:
        name = node.list_keys[0]
        found = [(item or {}).get(name, _UNSPECIFIED) for item in value]
        for position in repeated(found):
            shown = {} if found[position] is _UNSPECIFIED else {name: found[position]}
            yield duplicate(index(path, position), sorted_maps(shown))
        return
    keys = [{name: item[name] for name in node.list_keys if name in item} if item else {} for item in value]
    for position in repeated(keys):
        yield duplicate(index(path, position), sorted_maps(keys[position]))


def repeated(values: list[Any]) -> list[int]:
    """Only the second occurrence of a value counts; further ones are left out."""
    times: dict[Any, int] = {}
    found = []
    for position, value in enumerate(values):
        if isinstance(value, dict | list):
            mark: Any = json.dumps(value, sort_keys=True)
        else:
            mark = (type(value), value)
        times[mark] = times.get(mark, 0) + 1
        if times[mark] == 2:
            found.append(position)
    return found


class CoercionError(ValueError):
    """Metadata of an embedded resource does not fit its type; the text is the field error's."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def metadata_schema(structural: Structural) -> Schema:
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
    """Fields that fit are kept; None if the metadata is no map."""
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
    """Only apiVersion, kind and metadata are checked, those of the root only if `root`."""
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
            yield required(at, "must not be empty" if node.features.explains_required else "")
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


def validate_object(
    obj: Object, structural: Structural, before: Sequence[FieldError] = (), scale: Sequence[FieldError] = ()
) -> list[FieldError]:
    """Errors come in this order: `before` (of metadata), values, `scale`, embedded metadata, lists, rules.

    The rules are only checked if no other error, those given included, blocks them.
    """
    errors = [*before, *_values(structural.check, obj, NOTHING, ""), *scale]
    errors += validate_embedded(obj, structural)
    errors += validate_lists(obj, structural)
    return errors + _rules(obj, None, structural, errors)


def validate_update(
    obj: Object,
    old: Object,
    structural: Structural,
    before: Sequence[FieldError] = (),
    scale: Sequence[FieldError] = (),
    forgiven: list[FieldError] | None = None,
) -> list[FieldError]:
    """Checks a changed object in the same way, with transition rules and ratcheting.

    Errors of rules that are not held against it are added to `forgiven`.
    """
    past = old if structural.features.ratcheting else NOTHING
    errors = [*before, *_values(structural.check, obj, past, ""), *scale]
    errors += validate_embedded(obj, structural)
    return _finish(obj, old, structural, errors, forgiven)


def validate_status_update(
    obj: Object,
    old: Object,
    structural: Structural,
    before: Sequence[FieldError] = (),
    scale: Sequence[FieldError] = (),
    forgiven: list[FieldError] | None = None,
) -> list[FieldError]:
    """Checks a changed status in the same way: only its values count, and no embedded metadata."""
    errors = [*before]
    status = structural.properties.get("status")
    if status is not None and "status" in obj:
        past = old.get("status") if structural.features.ratcheting else NOTHING
        errors += _values(status.check_nested, obj["status"], past, "status")
    return _finish(obj, old, structural, [*errors, *scale], forgiven)


def _finish(
    obj: Object,
    old: Object,
    structural: Structural,
    errors: list[FieldError],
    forgiven: list[FieldError] | None,
) -> list[FieldError]:
    lists = validate_lists(obj, structural)
    if lists and not validate_lists(old, structural):  # an old error may stay
        errors += lists
    return errors + _rules(obj, old, structural, errors, forgiven)


def validate_default_values(value: Any, structural: Structural, path: str) -> list[FieldError]:
    """Checks values alone; metadata and rules are not looked at."""
    return _values(structural.check_default, value, NOTHING, path)


def _values(check: NodeCheck, value: Any, old: Any, path: str) -> list[FieldError]:
    errors: list[ValidationError] = []
    check(value, old, None, errors)
    by_text: dict[str, ValidationError] = {}
    for error in errors:
        by_text.setdefault(error.text, error)
    return [error.field_error(path) for error in by_text.values()]


def _rules(
    obj: Object,
    old: Object | None,
    structural: Structural,
    errors: Sequence[FieldError],
    forgiven: list[FieldError] | None = None,
) -> list[FieldError]:
    if not structural.has_rules:
        return []
    if any(error.type in _BLOCKING for error in errors):
        return [FieldError(ErrorType.INVALID, NIL, None, _UNCHECKED)]
    return validate_rules(obj, old, structural, forgiven)

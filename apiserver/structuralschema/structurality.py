"""Checks whether a schema is structural: every field is specified, with a type, outside of value validation.

Source: apiextensions-apiserver pkg/apiserver/schema/{validation,complete}.go, 1.36.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from kubeskew.apimachinery.cel.library.regular import regular_expression
from kubeskew.apimachinery.field import FieldError, forbidden, index, invalid, key, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.paths import child


class Level(Enum):
    """Names the place of a schema, by the text for a missing type there."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED_TYPE: Final = "must be object if x-kubernetes-embedded-resource is true"
_NESTED_ORDER: Final = ("anyOf", "allOf", "oneOf")
_FORBIDDEN_INSIDE: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("externalDocs", "must be undefined to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_FALSE_COUNTS: Final = {"default"}
_EMPTY_COUNTS: Final = {
    "additionalProperties", "default", "externalDocs", "x-kubernetes-list-type", "x-kubernetes-map-type",
}  # fmt: skip


def validate_structure(props: Object, path: str) -> list[FieldError]:
    """Returns the reasons for which a schema is not structural, sorted by text."""
    return sorted((*_invariants(props, Level.ROOT, path), *_completeness(props, props, path, path)), key=str)


def _has(props: Object, name: str) -> bool:
    """Decides whether a field is set to something that is not Go's zero."""
    value = props.get(name)
    if value is None:
        return False
    return bool(value) or name in (_EMPTY_COUNTS if value in ({}, [], "") else _FALSE_COUNTS)


# --- what holds for every schema outside of junctors -----------------------------------------------------


def _invariants(props: Object, level: Level, path: str) -> Iterator[FieldError]:
    items, extra = props.get("items"), props.get("additionalProperties")
    if props.get("type") == "array" and items is None:
        yield required(child(path, "items"), "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, Level.ITEM, child(path, "items"))
    for name, below in (props.get("properties") or {}).items():
        yield from _invariants(below, Level.FIELD, key(child(path, "properties"), name))
    if extra is not None:
        if level is Level.ROOT:
            yield forbidden(child(path, "additionalProperties"), "must not be used at the root")
        if isinstance(extra, dict):
            yield from _invariants(extra, Level.FIELD, child(path, "additionalProperties"))
    yield from _extensions(props, path)
    any_of, all_of = props.get("anyOf") or [], props.get("allOf") or []
    yield from _value_validation(
        props,
        path,
        skip_any_of=any_of == _INT_OR_STRING,
        skip_first=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )
    yield from _type(props, level, path)
    yield from _meta_fields(props, level, path)


def _extensions(props: Object, path: str) -> Iterator[FieldError]:
    if props.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if props.get(name):
                yield invalid(child(path, name), True, "must be false if x-kubernetes-int-or-string is true")


def _type(props: Object, level: Level, path: str) -> Iterator[FieldError]:
    type_, at = props.get("type") or "", child(path, "type")
    embedded = bool(props.get("x-kubernetes-embedded-resource"))
    free = props.get("x-kubernetes-int-or-string") or props.get("x-kubernetes-preserve-unknown-fields")
    if embedded and type_ != "object":
        yield invalid(at, type_, _EMBEDDED_TYPE) if type_ else required(at, _EMBEDDED_TYPE)
    elif not type_ and not free:
        yield required(at, level.value)
    if embedded and props.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(child(path, "additionalProperties"), detail)
    if level is Level.ROOT and type_ not in {"", "object"}:
        yield invalid(at, type_, "must be object at the root")


def _meta_fields(props: Object, level: Level, path: str) -> Iterator[FieldError]:
    """Checks kind, apiVersion and metadata, which a schema may restrict and not define."""
    properties = props.get("properties") or {}
    embedded = bool(props.get("x-kubernetes-embedded-resource"))
    checked = level is Level.ROOT or embedded
    for name in ("kind", "apiVersion"):
        found = (properties.get(name) or {}).get("type") or ""
        if checked and name in properties and found != "string":
            yield invalid(f"{path}.properties[{name}].type", found, "must be string")
    metadata = properties.get("metadata")
    if metadata is not None:
        at = f"{path}.properties[metadata]"
        if checked and metadata.get("type") != "object":
            yield invalid(f"{at}.type", metadata.get("type") or "", "must be object")
        if level is Level.ROOT and _says_more(metadata):
            yield forbidden(
                at,
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            )
    if embedded and not props.get("x-kubernetes-preserve-unknown-fields") and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields"
        )
        yield required(child(path, "properties"), detail)


def _says_more(metadata: Object) -> bool:
    """Decides whether a root's metadata schema restricts more than name and generateName."""
    names = set(metadata.get("properties") or {})
    allowed = {"type", "default"} | ({"properties"} if names <= {"name", "generateName"} else set())
    return any(name not in allowed and _has(metadata, name) for name in metadata)


# --- inside of junctors ----------------------------------------------------------------------------------


def _value_validation(
    props: Object, path: str, *, skip_any_of: bool = False, skip_first: bool = False
) -> Iterator[FieldError]:
    for name in _NESTED_ORDER:
        if name == "anyOf" and skip_any_of:
            continue
        for position, nested in enumerate(props.get(name) or []):
            first = name == "allOf" and skip_first and position == 0
            yield from _nested(nested, index(child(path, name), position), skip_any_of=first)
    if isinstance(props.get("not"), dict):
        yield from _nested(props["not"], child(path, "not"))
    pattern = props.get("pattern") or ""
    if pattern:
        try:
            regular_expression(pattern)
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(child(path, "pattern"), pattern, detail)


def _nested(props: Object, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _value_validation(props, path, skip_any_of=skip_any_of)
    if isinstance(props.get("items"), dict):
        yield from _nested(props["items"], child(path, "items"))
    for name, below in (props.get("properties") or {}).items():
        yield from _nested(below, key(child(path, "properties"), name))
    for name, why in _FORBIDDEN_INSIDE:
        if _has(props, name):
            yield forbidden(child(path, name), why)
    if "metadata" in (props.get("properties") or {}):
        detail = "must not be specified in a nested context"
        yield forbidden(key(child(path, "properties"), "metadata"), detail)


# --- completeness: what junctors speak of is specified ---------------------------------------------------


def _completeness(validation: Object, spine: Any, at: str, path: str) -> Iterator[FieldError]:
    """Checks that what a value validation names is in the schema proper; `at` is the place there, `path` that
    of the validation.
    """
    if not isinstance(spine, dict):
        yield required(at, f"because it is defined in {path}")
        return
    if isinstance(validation.get("not"), dict):
        yield from _nested_completeness(validation["not"], spine, at, child(path, "not"))
    for name in ("allOf", "anyOf", "oneOf"):
        for position, nested in enumerate(validation.get(name) or []):
            yield from _nested_completeness(nested, spine, at, index(child(path, name), position))


def _nested_completeness(nested: Object, spine: Any, at: str, path: str) -> Iterator[FieldError]:
    if not isinstance(spine, dict):
        yield required(at, f"because it is defined in {path}")
        return
    yield from _completeness(nested, spine, at, path)
    if isinstance(nested.get("items"), dict):
        yield from _nested_completeness(
            nested["items"], spine.get("items"), child(at, "items"), child(path, "items")
        )
    for name, below in (nested.get("properties") or {}).items():
        place, where = key(child(at, "properties"), name), key(child(path, "properties"), name)
        yield from _nested_completeness(below, (spine.get("properties") or {}).get(name), place, where)

"""Holds the rules of subresources, printer columns, selectable fields and deprecation warnings.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

import json
import unicodedata
from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    Unquoted,
    child,
    duplicate,
    index,
    invalid,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions.internal import Place
from kubeskew.apiserver.structuralschema.field_paths import FieldPathError, read_field_path

_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE = 8
_MOST_WARNING_BYTES = 256
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_WRONG_TYPE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
    "are allowed."
)


def validate_parts(place: Place, schema: list[FieldError]) -> list[FieldError]:
    """Returns the errors of a version, or of what all have in common; `schema`: the errors of its schema."""
    errors = [*_warning(place.version or {}, child(place.path, "deprecationWarning")), *schema]
    errors += _scale((place.parts.get("subresources") or {}).get("scale"), child(place.path, "subresources"))
    for position, column in enumerate(place.parts.get("additionalPrinterColumns") or ()):
        errors += _column(column, index(child(place.path, "additionalPrinterColumns"), position))
    fields = place.parts.get("selectableFields")
    if fields:
        errors += _selectable(place, fields, child(place.path, "selectableFields"))
    return errors


def _warning(version: Object, path: str) -> Iterator[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > _MOST_WARNING_BYTES:
        yield invalid(path, text, "must be <= 256 characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    for position, char in enumerate(text):
        if not (char == " " or unicodedata.category(char)[0] in "LMNPS"):
            at = len(text[:position].encode())
            why = f"non-printable character found at index {at}"
            shown = Unquoted(json.dumps(text, ensure_ascii=False))  # a pointer, so as JSON
            yield invalid(path, shown, f"must only contain printable UTF-8 characters; {why}")
            return


def _scale(scale: Object | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for name, prefix in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        at, value = child(path, f"scale.{name}"), scale.get(name) or ""
        if not value:
            yield required(at)
        elif not value.startswith("."):
            yield _not_simple(at, value)
        elif not value.startswith(f"{prefix}."):
            yield invalid(at, value, f"should be a json path under {prefix}")
    selector, at = scale.get("labelSelectorPath") or "", child(path, "scale.labelSelectorPath")
    if selector and not selector.startswith("."):
        yield _not_simple(at, selector)
    elif selector and not selector.startswith((".spec.", ".status.")):
        yield invalid(at, selector, "should be a json path under either .spec or .status")


def _not_simple(path: str, value: str) -> FieldError:
    return invalid(path, value, "must be a simple json path starting with .")


def _column(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(child(path, "name"))
    kind, form, place = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    if not kind:
        yield required(child(path, "type"), f"must be one of {','.join(_TYPES)}")
    elif kind not in _TYPES:
        yield invalid(child(path, "type"), kind, f"must be one of {','.join(_TYPES)}")
    if form and form not in _FORMATS:
        yield invalid(child(path, "format"), form, f"must be one of {','.join(_FORMATS)}")
    if not place:
        yield required(child(path, "JSONPath"))
    elif not place.startswith("."):
        yield _not_simple(child(path, "JSONPath"), place)


def _selectable(place: Place, fields: list[Object], path: str) -> Iterator[FieldError]:
    schema = _schema(place)
    if schema is None:
        where = (
            "validations.schema is included"
            if place.version is None
            else "`version.schema.openAPIV3Schema` is not included"
        )
        yield invalid(path, "", f"may only be set when {where}")
        return
    seen: set[str] = set()
    for position, field in enumerate(fields):
        at, given = child(index(path, position), "jsonPath"), field.get("jsonPath") or ""
        if not given:
            yield required(at)
            continue
        try:
            shown, found = read_field_path(given, schema, brackets=False)
        except FieldPathError as error:
            yield invalid(at, given, f"is an invalid path: {error}")
            continue
        if shown.partition(".")[0] == "metadata":
            yield invalid(at, given, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            yield invalid(at, given, _WRONG_TYPE)
        if shown in seen:
            yield duplicate(at, given)
        seen.add(shown)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _schema(place: Place) -> Object | None:
    """Returns the schema at the same place: upstream looks there, and in one place only."""
    found: Object | None = (place.parts.get("schema") or {}).get("openAPIV3Schema")
    return found

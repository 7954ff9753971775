"""Checks a custom resource as a whole, in upstream's order.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy,validator}.go, 1.36.
"""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.field import ErrorType, FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.correlation import NOTHING
from kubeskew.apiserver.structuralschema.embedded import validate_embedded
from kubeskew.apiserver.structuralschema.expressions import validate_rules
from kubeskew.apiserver.structuralschema.list_types import validate_lists
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.paths import NIL
from kubeskew.apiserver.structuralschema.validation_errors import ValidationError
from kubeskew.apiserver.structuralschema.values import NodeCheck

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


def validate_object(
    obj: Object, structural: Structural, before: Sequence[FieldError] = (), scale: Sequence[FieldError] = ()
) -> list[FieldError]:
    """Returns all errors of a new object: `before` (metadata), values, `scale`, embedded metadata, lists,
    rules.

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
    """Checks the same for a changed object, with transition rules and ratcheting.

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
    """Checks the same for the status subresource: only its values count, and no embedded metadata."""
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
    """Returns errors of a default's values alone."""
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

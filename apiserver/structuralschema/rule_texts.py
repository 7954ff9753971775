"""Checks the texts of x-kubernetes-validations, apart from their expressions.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

import re
from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.field import FieldError, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.field_paths import FieldPathError, read_field_path
from kubeskew.apiserver.structuralschema.paths import child

_BREAK = re.compile(r"[\n\r]")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check(rules: Sequence[Object], path: str, props: Object) -> list[FieldError]:
    """Returns errors of the rules of the schema `props` at `path`."""
    at = child(path, "x-kubernetes-validations")
    return [
        error
        for position, rule in enumerate(rules)
        for error in (*_text(rule, f"{at}[{position}]"), *_rest(rule, f"{at}[{position}]", props))
    ]


def _text(rule: Object, at: str) -> Iterator[FieldError]:
    expression, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    trimmed = message.strip()
    if not expression:
        yield required(f"{at}.rule", "rule is not specified")
    elif message and not trimmed:
        yield invalid(f"{at}.message", message, "must be non-empty if specified")
    elif _BREAK.search(trimmed):
        yield invalid(f"{at}.message", message, "must not contain line breaks")
    elif _BREAK.search(expression) and not trimmed:
        yield required(f"{at}.message", "message must be specified if rule contains line breaks")


def _rest(rule: Object, at: str, props: Object) -> Iterator[FieldError]:
    expression, reason = rule.get("messageExpression") or "", rule.get("reason")
    if expression and not expression.strip():
        yield required(f"{at}.messageExpression", "messageExpression must be non-empty if specified")
    if reason is not None and reason not in REASONS:
        yield not_supported(f"{at}.reason", reason, REASONS)
    path = rule.get("fieldPath") or ""
    if path and not path.strip():
        yield invalid(f"{at}.fieldPath", path, "must be non-empty if specified")
    if _BREAK.search(path):
        yield invalid(f"{at}.fieldPath", path, "must not contain line breaks")
    if path and not _names_field(path, props):
        yield invalid(f"{at}.fieldPath", path, "must be a valid path")


def _names_field(path: str, props: Object) -> bool:
    try:
        read_field_path(path, props)
    except FieldPathError:
        return False
    return True

"""Holds what OpenAPI validation finds wrong with a value: its message, and the field error that it becomes.

Source: kube-openapi pkg/validation/errors/schema.go; apiextensions-apiserver pkg/apiserver/validation
(kubeOpenAPIResultToFieldErrors), 1.36.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from kubeskew.apimachinery import field
from kubeskew.apimachinery.field import ErrorType, FieldError
from kubeskew.apiserver.structuralschema.kinds import sorted_maps
from kubeskew.apiserver.structuralschema.paths import Path, child, dotted, shown

Text = str


class ValidationError(NamedTuple):
    """Holds one error of OpenAPI validation: `text` is its message, `name` the place, empty at the root.

    An answer tells errors of the same text once.
    """

    text: Text
    type: ErrorType
    name: str
    value: Any = ""
    detail: str = ""

    def field_error(self, prefix: str) -> FieldError:
        """Returns the field error, with the place below `prefix`."""
        path = prefix
        if self.name:
            name = self.name.removeprefix(".")
            path = child(prefix, name) if prefix else name
        return FieldError(self.type, shown(path), self.value, self.detail)


def wrong_type(path: Path, wanted: str, found: str) -> ValidationError:
    """Returns the error of a wrong type; `found` is a JSON type, a Go format, or the text without one."""
    name = dotted(path)
    text = f"{name} in body must be of type {wanted}: {json.dumps(found, ensure_ascii=False)}"
    return ValidationError(text, ErrorType.TYPE_INVALID, name, found, text)


def required(path: Path, name: str) -> ValidationError:
    at = dotted((path, name))
    return ValidationError(f".{at} in body is required", ErrorType.REQUIRED, at, field.OMITTED)


def too_long(path: Path, limit: int) -> ValidationError:
    name = dotted(path)
    text = f"{name} in body should be at most {limit} chars long"
    error = field.too_long(name, limit)
    return ValidationError(text, ErrorType.TOO_LONG, name, field.OMITTED, error.detail)


def too_many(path: Path, actual: int, limit: int, what: str) -> ValidationError:
    name = dotted(path)
    error = field.too_many(name, actual, limit)
    return ValidationError(
        f"{name} in body should have at most {limit} {what}", ErrorType.TOO_MANY, name, actual, error.detail
    )


def not_supported(path: Path, value: Any, allowed: Iterable[Any]) -> ValidationError:
    name = dotted(path)
    texts = [
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        for each in allowed
    ]
    error = field.not_supported(name, value, texts)
    return ValidationError(
        f"{name} in body should be one of [{' '.join(texts)}]",
        ErrorType.NOT_SUPPORTED,
        name,
        sorted_maps(value),
        error.detail,
    )


def invalid(path: Path, value: Any, what: str) -> ValidationError:
    """Returns the error of an invalid value; `what` follows the place: `in body should match 'RE'`."""
    name = dotted(path)
    text = f"{name} {what}"
    return ValidationError(text, ErrorType.INVALID, name, value, text)


def forbidden_property(path: Path, name: str) -> ValidationError:
    at = dotted(path)
    text = f"{at}.{name} in body is a forbidden property"
    return ValidationError(text, ErrorType.INVALID, at, name, text)


def unplaced(text: Text) -> ValidationError:
    """Returns an error of which upstream tells no field."""
    return ValidationError(text, ErrorType.INVALID, "", "", text)


def junctor(path: Path, what: str) -> ValidationError:
    """Returns the error of a junctor (allOf, anyOf, oneOf, not): `"spec.x" must validate …`."""
    return unplaced(f"{json.dumps(dotted(path))} {what}")

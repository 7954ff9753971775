"""Errors of single fields of an object, in upstream's wording.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go, 1.36.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubeskew.apimachinery.go_formats import as_written, float_text, quoted

_HTML = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}  # Go escapes them in JSON
ROOT = "[]"  # a path without a name, as Go shows it
OMITTED = object()  # the error's text shows no value


class Unquoted(str):
    """A value that is shown without quotes, because its Go type has a text form of its own."""

    __slots__ = ()


class Named(str):
    """A value whose Go type has a name of its own: not all releases show it as they show other texts."""

    __slots__ = ()


class Stringer(Named):
    """A value whose Go type has a text form of its own: releases up to 1.33 show that, without quotes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class InternalValue:
    """A value that is shown as the internal type of upstream's that it is of: `sort` (`core.Toleration`)."""

    value: Any
    sort: str


@dataclass(frozen=True, slots=True)
class RenderedValue:
    """A value that `render` writes when the error is."""

    value: Any
    render: Callable[[Any], str]


class ErrorType(StrEnum):
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_SHORT = "FieldValueTooShort"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    INTERNAL = "InternalError"


_TEXTS = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_SHORT: "Too short",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = {
    ErrorType.REQUIRED,
    ErrorType.FORBIDDEN,
    ErrorType.TOO_LONG,
    ErrorType.TOO_SHORT,
    ErrorType.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field error. `path` is dotted (`spec.containers[0].name`)."""

    type: ErrorType
    path: str
    value: Any = OMITTED
    detail: str = ""

    @property
    def body(self) -> str:
        """Text without the path: the `message` of a Status cause."""
        parts = [_TEXTS[self.type]]
        if self.value is not OMITTED and self.type not in _WITHOUT_VALUE:
            parts.append(show(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    def cause(self) -> dict[str, str]:
        """An entry of `details.causes`."""
        return {"reason": self.type.value, "message": self.body, "field": self.path}


def listed(errors: Iterable[FieldError | str]) -> str:
    """Joins the texts of errors, exact repeats once; empty without errors."""
    texts = list(dict.fromkeys(map(str, errors)))
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def show(value: Any) -> str:
    """Go's form of a value in field errors: strings quoted, structs as JSON, nil as `null`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return float_text(value)
    if isinstance(value, Unquoted):
        return str(value)
    if isinstance(value, InternalValue):
        return show(value.value)
    if isinstance(value, RenderedValue):
        return value.render(value.value)
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(as_written(value), ensure_ascii=False, separators=(",", ":")).translate(_HTML)


def child(path: str, name: str) -> str:
    """`path.name`, or `name` at the root."""
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """`path[3]`."""
    return f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """`path[name]`, for the entries of maps."""
    return f"{path}[{name}]"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, path, OMITTED, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(ErrorType.INVALID, path, value, detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, path, value)


def not_found(path: str, value: Any) -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, path, value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, path, OMITTED, detail)


def not_supported(path: str, value: Any, supported: list[str] | tuple[str, ...]) -> FieldError:
    """`supported` is in the validator's order (sets sorted by the caller)."""
    names = ", ".join(map(quoted, supported))
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {names}")


def too_long(path: str, max_bytes: int) -> FieldError:
    """`max_bytes` is negative where none can be told."""
    known = f"may not be more than {_counted(max_bytes, 'byte')}"
    return FieldError(ErrorType.TOO_LONG, path, OMITTED, known if max_bytes >= 0 else "value is too long")


def too_long_characters(path: str, most: int) -> FieldError:
    detail = f"may not be more than {_counted(most, 'character')}"
    return FieldError(ErrorType.TOO_LONG, path, OMITTED, detail)


def too_short(path: str, least: int) -> FieldError:
    return FieldError(ErrorType.TOO_SHORT, path, OMITTED, f"must be at least {_counted(least, 'character')}")


def too_few(path: str, actual: int, least: int) -> FieldError:
    return FieldError(ErrorType.TOO_FEW, path, actual, f"must have at least {_counted(least, 'item')}")


def too_many(path: str, actual: int, max_items: int) -> FieldError:
    return FieldError(ErrorType.TOO_MANY, path, actual, f"must have at most {_counted(max_items, 'item')}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

"""Builds errors of OpenAPI validation: the place of a value, the message, and the resulting field error.

Two spellings exist upstream: OpenAPI validation writes every step as `.name` (`spec.labels.a`), everything
else writes the keys of maps as `[key]`.

Source: kube-openapi pkg/validation/errors/schema.go; apiextensions-apiserver pkg/apiserver/validation
(kubeOpenAPIResultToFieldErrors), 1.36.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from kubeskew.apimachinery import field
from kubeskew.apimachinery.field import ErrorType, FieldError

NIL = "<nil>"  # how Go shows the path of the root
_LEAST, _MOST = -(2**63), 2**63 - 1
Text = str


@dataclass(frozen=True, slots=True)
class Key:
    """Marks the key of a map, as a step of a path."""

    name: str


Path: TypeAlias = tuple[Any, str | int | Key] | None  # (path above, step); None is the root


def dotted(path: Path) -> str:
    """The form is `spec.labels.a` or `spec.items[0].name`; the root is empty."""
    return _joined(path, "", lambda name: f".{name}")


def bracketed(path: Path, prefix: str = "") -> str:
    """The form is `spec.labels[a]`."""
    return _joined(path, prefix, lambda name: f"[{name}]")


def _joined(path: Path, prefix: str, show_key: Callable[[str], str]) -> str:
    steps = []
    while path is not None:
        path, step = path
        if isinstance(step, Key):
            steps.append(show_key(step.name))
        else:
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return (prefix + "".join(reversed(steps))).removeprefix(".")


def child(path: str, name: str) -> str:
    return name if path in {"", NIL} else f"{path}.{name}"


def key(path: str, name: str) -> str:
    return f"[{name}]" if path in {"", NIL} else f"{path}[{name}]"


def shown(path: str) -> str:
    return path or NIL


def kind_of(value: Any) -> tuple[str, str]:
    """Types are JSON's, formats Go's: `integer`, `int64`. Integers beyond 64 bits are float64, as in Go."""
    kind = type(value)
    if kind is str:
        return "string", ""
    if kind is bool:
        return "boolean", ""
    if kind is int and _LEAST <= value <= _MOST:
        return "integer", "int64"
    if kind is float or kind is int:
        return "number", "float64"
    if isinstance(value, dict):
        return "object", ""
    if isinstance(value, list):
        return "array", ""
    return ("null", "") if value is None else ("string", "")


def sorted_maps(value: Any) -> Any:
    """Go writes maps into messages with sorted keys."""
    if isinstance(value, dict):
        return {name: sorted_maps(value[name]) for name in sorted(value)}
    return [sorted_maps(item) for item in value] if isinstance(value, list) else value


class ValidationError(NamedTuple):
    """`text` is the message, `name` the place, empty at the root.

    Errors of the same text are reported once.
    """

    text: Text
    type: ErrorType
    name: str
    value: Any = ""
    detail: str = ""

    def field_error(self, prefix: str) -> FieldError:
        path = prefix
        if self.name:
            name = self.name.removeprefix(".")
            path = child(prefix, name) if prefix else name
        return FieldError(self.type, shown(path), self.value, self.detail)


def wrong_type(path: Path, wanted: str, found: str) -> ValidationError:
    """`found` is a JSON type, a Go format, or the text without one."""
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


def too_many(path: Path, actual: int, limit: int, what: str, *, counts: bool) -> ValidationError:
    """`counts`: one item, too, is "1 items"."""
    name = dotted(path)
    detail = f"must have at most {limit} items" if counts else field.too_many(name, actual, limit).detail
    text = f"{name} in body should have at most {limit} {what}"
    return ValidationError(text, ErrorType.TOO_MANY, name, actual, detail)


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
    """`what` follows the place: `in body should match 'RE'`."""
    name = dotted(path)
    text = f"{name} {what}"
    return ValidationError(text, ErrorType.INVALID, name, value, text)


def forbidden_property(path: Path, name: str) -> ValidationError:
    at = dotted(path)
    text = f"{at}.{name} in body is a forbidden property"
    return ValidationError(text, ErrorType.INVALID, at, name, text)


def unplaced(text: Text) -> ValidationError:
    """Upstream names no field for this error."""
    return ValidationError(text, ErrorType.INVALID, "", "", text)


def junctor(path: Path, what: str) -> ValidationError:
    """The form is `"spec.x" must validate …`, for allOf, anyOf, oneOf and not."""
    return unplaced(f"{json.dumps(dotted(path))} {what}")

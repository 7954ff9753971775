"""Conditions (metav1.Condition) follow these rules; and the types of those that are true.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation, 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object

_STATUSES = ("False", "True", "Unknown")
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
)
_EXAMPLES = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
_MAX_REASON = 1024
_MAX_MESSAGE = 32 * 1024


def true_conditions(status: Object) -> set[str]:
    conditions = status.get("conditions") or ()
    return {condition.get("type") or "" for condition in conditions if condition.get("status") == "True"}


def condition_errors(conditions: list[Object], path: str, *, texts: bool = False) -> Iterator[FieldError]:
    """`texts`: errors say that what is missing must be set, as until 1.33."""
    lacking = "must be set" if texts else ""
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        at, kind = index(path, position), condition.get("type") or ""
        if kind in seen:
            yield duplicate(child(at, "type"), kind)
        seen.add(kind)
        yield from _one(condition, at, lacking)


def _one(condition: Object, path: str, lacking: str) -> Iterator[FieldError]:
    kind, status = condition.get("type") or "", condition.get("status") or ""
    yield from (invalid(child(path, "type"), kind, text) for text in names.qualified_name(kind))
    if status not in _STATUSES:
        yield not_supported(child(path, "status"), status, _STATUSES)
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        at = child(path, "observedGeneration")
        yield invalid(at, generation, "must be greater than or equal to zero")
    if not condition.get("lastTransitionTime"):
        yield required(child(path, "lastTransitionTime"), lacking)
    yield from _reason_errors(condition.get("reason") or "", child(path, "reason"), lacking)
    if len((condition.get("message") or "").encode()) > _MAX_MESSAGE:
        yield too_long(child(path, "message"), _MAX_MESSAGE)


def _reason_errors(reason: str, path: str, lacking: str) -> Iterator[FieldError]:
    if not reason:
        yield required(path, lacking)
        return
    if not re.fullmatch(_REASON, reason):
        yield invalid(path, reason, names.regex_text(_REASON_TEXT, _REASON, *_EXAMPLES))
    if len(reason.encode()) > _MAX_REASON:
        yield too_long(path, _MAX_REASON)

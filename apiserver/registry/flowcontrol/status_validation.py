"""Checks the conditions of FlowSchemas and PriorityLevelConfigurations.

Source: pkg/apis/flowcontrol/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    duplicate,
    index,
    required,
)
from kubeskew.apimachinery.objects import Object


def status_errors(status: Object, *, texts: bool) -> Iterator[FieldError]:
    """Checks that conditions have types, each a different one; `texts`: an error says it in words, too."""
    seen: set[str] = set()
    for position, condition in enumerate(status.get("conditions") or []):
        at, kind = f"{index('status.conditions', position)}.type", condition.get("type") or ""
        if kind in seen:
            yield duplicate(at, kind)
        seen.add(kind)
        if not kind:
            yield required(at, "must not be empty" if texts else "")

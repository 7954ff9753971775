"""Defines the context of defaulting functions, and the helpers that every one of them uses."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import Features


class DefaultingContext(NamedTuple):
    """Holds what the server's version and gates decide, and the time of the request."""

    features: Features
    now: datetime

    @property
    def timestamp(self) -> str:
        return timestamp(self.now)


Defaulter = Callable[[Object, DefaultingContext], None]


def fill(obj: Object, **values: Any) -> None:
    """Sets each field that is unset or empty (Go's zero value of a non-pointer)."""
    for name, value in values.items():
        if not obj.get(name):
            obj[name] = value


def fill_null(obj: Object, **values: Any) -> None:
    """Sets each field that is absent (a nil pointer in Go): an explicit zero stays."""
    for name, value in values.items():
        if obj.get(name) is None:
            obj[name] = value


def struct(obj: Object, name: str) -> Object:
    """Returns a field that is a struct, made if it is absent."""
    found: Object | None = obj.get(name)
    if found is None:
        found = obj[name] = {}
    return found


def each(obj: Object, *names: str) -> list[Object]:
    """Returns the items of the list fields `names`, in order."""
    return [item for name in names for item in obj.get(name) or ()]

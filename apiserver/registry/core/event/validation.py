"""Holds the rules of events, in the core shape. Source: pkg/apis/core/validation/events.go, 1.36."""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE

_MAX_NAME = 128
_MAX_NOTE = 1024
_OTHER_NAMESPACE = "does not match event.namespace"
_REFERENCE = {
    "kind": "Kind",
    "namespace": "Namespace",
    "name": "Name",
    "uid": "UID",
    "apiVersion": "APIVersion",
    "resourceVersion": "ResourceVersion",
    "fieldPath": "FieldPath",
}
# Fields of events.k8s.io that may not change, in the order of the checks (upstream checks one twice).
_KEPT = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason",
    "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_TIMES = frozenset({"firstTimestamp", "lastTimestamp", "eventTime", "related"})


def event_errors(event: Object, *, reporting: str = "reportingController") -> Iterator[FieldError]:
    """Yields the errors of an event in any group; `reporting`: the field of the one who reports it."""
    namespace = event["metadata"].get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    if not event.get("eventTime"):
        agrees = involved == namespace if involved else namespace in {"", "default"}
    else:
        agrees = bool(involved) or namespace in {"default", "kube-system"}
    if not agrees:
        yield invalid("involvedObject.namespace", involved, _OTHER_NAMESPACE)
    if event.get("eventTime"):
        yield from _reporting(event, reporting)
    yield from (invalid("namespace", namespace, text) for text in names.dns1123_subdomain(namespace))


def _reporting(event: Object, path: str) -> Iterator[FieldError]:
    controller = event.get("reportingComponent") or ""
    if not controller:
        yield required(path)
    yield from (invalid(path, controller, text) for text in names.qualified_name(controller))
    for name in ("reportingInstance", "action", "reason"):
        value = event.get(name) or ""
        if not value:
            yield required(name)
        if len(value.encode()) > _MAX_NAME:
            yield invalid(name, "", f"can have at most {_MAX_NAME} characters")
    if len((event.get("message") or "").encode()) > _MAX_NOTE:
        yield invalid("message", "", f"can have at most {_MAX_NOTE} characters")


def _series(event: Object) -> Iterator[FieldError]:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def new_event_errors(event: Object) -> Iterator[FieldError]:
    """Yields the errors of a new event by the additional rules of events.k8s.io."""
    yield from _series(event)
    if not event.get("eventTime"):
        yield required("eventTime")
    kind = event.get("type") or ""
    if kind not in {"Normal", "Warning"}:
        yield invalid("type", "", f"has invalid value: {kind}")
    for name in ("firstTimestamp", "lastTimestamp", "count"):
        if event.get(name):
            yield invalid(name, "", "needs to be unset")
    if any((event.get("source") or {}).values()):
        yield invalid("source", "", "needs to be unset")


def update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks that only the series of an event changes, in events.k8s.io."""
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _KEPT:
        if (new.get(name) or None) != (old.get(name) or None):
            path = "reportingController" if name == "reportingComponent" else name
            yield invalid(path, _shown(name, new.get(name)), IMMUTABLE)


def _shown(name: str, value: Any) -> Any:
    """Returns a field as errors show upstream's internal type."""
    if name == "involvedObject" or (name == "related" and value):
        return {shown: (value or {}).get(field) or "" for field, shown in _REFERENCE.items()}
    if name == "source":
        return {"Component": (value or {}).get("component") or "", "Host": (value or {}).get("host") or ""}
    if name in _TIMES:
        return value
    return value or (0 if name == "count" else "")

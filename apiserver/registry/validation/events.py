"""Rules of events. Source: pkg/apis/core/validation/events.go, 1.36."""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, invalid, required
from apimachinery.validation import names

_MAX_INSTANCE, _MAX_NOTE = 128, 1024
_MAX_ACTION = 128


def event_errors(event: Object, *, newer: bool) -> list[FieldError]:
    """An event in core shape; `newer`: it was sent as events.k8s.io/v1."""
    namespace = event["metadata"].get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    errors: list[FieldError] = []
    if not event.get("eventTime"):
        agrees = involved == namespace if involved else namespace in {"", "default"}
        if not agrees:
            errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    else:
        if not involved and namespace not in {"default", "kube-system"}:
            errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
        errors += _reporting(event, "reportingController" if newer else "reportingComponent")
    if newer:
        errors += _newer(event)
    return errors


def _reporting(event: Object, field: str) -> Iterator[FieldError]:
    controller, instance = event.get("reportingComponent") or "", event.get("reportingInstance") or ""
    if not controller:
        yield required(field)
    yield from (invalid(field, controller, text) for text in names.qualified_name(controller))
    if not instance:
        yield required("reportingInstance")
    if len(instance) > _MAX_INSTANCE:
        yield invalid("reportingInstance", "", f"can have at most {_MAX_INSTANCE} characters")
    for name, most in (("action", _MAX_ACTION), ("reason", _MAX_ACTION)):
        if not event.get(name):
            yield required(name)
        elif len(event[name]) > most:
            yield invalid(name, "", f"can have at most {most} characters")
    if len(event.get("message") or "") > _MAX_NOTE:
        yield invalid("message", "", f"can have at most {_MAX_NOTE} characters")


def _newer(event: Object) -> Iterator[FieldError]:
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

"""Event: validation, strategy and cells of tables.

Those of the core group and of events.k8s.io are one resource.

Sources: pkg/apis/core/validation/events.go, k8s.io/kubernetes/pkg/registry/core/event/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

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
_NEWER = "events.k8s.io"
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CORE_EVENT = GroupVersionKind("", "v1", "Event")


def event_errors(event: Object, *, reporting: str = "reportingController") -> Iterator[FieldError]:
    """`reporting`: the field of the one who reports the event."""
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
    """New events of events.k8s.io have these rules in addition."""
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
    """Only the series of an event changes, in events.k8s.io."""
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _KEPT:
        if (new.get(name) or None) != (old.get(name) or None):
            path = "reportingController" if name == "reportingComponent" else name
            yield invalid(path, _shown(name, new.get(name)), IMMUTABLE)


def _shown(name: str, value: Any) -> Any:
    """Errors show upstream's internal type."""
    if name == "involvedObject" or (name == "related" and value):
        return {shown: (value or {}).get(field) or "" for field, shown in _REFERENCE.items()}
    if name == "source":
        return {"Component": (value or {}).get("component") or "", "Host": (value or {}).get("host") or ""}
    if name in _TIMES:
        return value
    return value or (0 if name == "count" else "")


class EventStrategy(HandwrittenBuiltIn):
    """Events of the newer group are checked strictly, with their metadata; the older one checks little."""

    allow_create_on_update = True
    default_propagation = ""
    field_labels = (
        *(f"involvedObject.{name}" for name in _INVOLVED),
        "reason",
        "reportingComponent",
        "source",
        "type",
        *(f"regarding.{name}" for name in _INVOLVED),
        "reportingController",
    )

    def checks_metadata(self, ctx: StrategyContext) -> bool:
        return ctx.request_group == _NEWER

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if not self.checks_metadata(ctx):
            return []
        check = names.dns1123_subdomain
        return object_meta.validate_object_meta(obj["metadata"], ctx.resource.namespaced, check)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.check_new(obj, ctx, [])

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        found = list(event_errors(obj, reporting=_reporting_field(ctx)))
        if ctx.request_group == _NEWER:
            found += [*metadata, *new_event_errors(obj)]
        return found

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        found = list(event_errors(new, reporting=_reporting_field(ctx)))
        if ctx.request_group == _NEWER:
            found += [*metadata, *update_errors(new, old)]
        return found

    def labels_in(self, group: str, features: Features) -> tuple[str, ...]:
        own, others = ("regarding.", "reportingController"), ("involvedObject.", "reportingComponent")
        refused = others if group == _NEWER else own
        return tuple(label for label in self.field_labels if not label.startswith(refused))

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        controller = obj.get("reportingComponent") or ""
        found["source"] = (obj.get("source") or {}).get("component") or controller
        found["reportingComponent"] = found["reportingController"] = controller
        for name in _INVOLVED:
            found[f"regarding.{name}"] = found[f"involvedObject.{name}"]
        return found


def _reporting_field(ctx: StrategyContext) -> str:
    return "reportingController" if ctx.request_group == _NEWER else "reportingComponent"


def event_cells(subject: Subject) -> Cells:
    seen = Subject(convert(subject.obj, _CORE_EVENT), subject.now)
    first = seen.since("firstTimestamp", default=seen.since("eventTime"))
    last, count = seen.since("lastTimestamp", default=first), seen.number("count") or 1
    if seen.at("series") is not None:
        last, count = seen.since("series", "lastObservedTime"), seen.number("series", "count")
    return {
        "Last Seen": last,
        "Type": seen.text("type"),
        "Reason": seen.text("reason"),
        "Object": _involved(seen.at("involvedObject") or {}),
        "Subobject": seen.text("involvedObject", "fieldPath"),
        "Source": _source(seen),
        "Message": seen.text("message").strip(),
        "First Seen": first,
        "Count": count,
    }


def _involved(reference: Object) -> str:
    kind, name = reference.get("kind", "").lower(), reference.get("name", "")
    return f"{kind}/{name}" if name else kind


def _source(subject: Subject) -> str:
    component = subject.text("source", "component") or subject.text("reportingComponent")
    instance = subject.text("source", "host") or subject.text("reportingInstance")
    return f"{component}, {instance}" if instance else component

"""Makes the cells that `kubectl get` shows of Event objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)

_CORE_EVENT = GroupVersionKind("", "v1", "Event")


def event(subject: Subject) -> Cells:
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


def _source(event: Subject) -> str:
    component = event.text("source", "component") or event.text("reportingComponent")
    instance = event.text("source", "host") or event.text("reportingInstance")
    return f"{component}, {instance}" if instance else component

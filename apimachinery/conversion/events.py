"""Converts Event between events.k8s.io/v1 and core/v1, which name the same fields differently. The core shape
is the common one.

Source: pkg/apis/events/v1/conversion.go.
"""

from kubeskew.apimachinery.objects import Object

# events.k8s.io name -> core name; fields not listed are the same
_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}


def to_core(event: Object) -> None:
    for new, core in _NAMES.items():
        if new in event:
            event[core] = event.pop(new)


def from_core(event: Object) -> None:
    for new, core in _NAMES.items():
        if core in event:
            event[new] = event.pop(core)


CONVERTERS = {("events.k8s.io", version, "Event"): (to_core, from_core) for version in ("v1", "v1beta1")}

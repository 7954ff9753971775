"""Converts kinds whose versions name the same fields differently: Event and PriorityLevelConfiguration.

Of Event, the core/v1 shape is the common one. Of flowcontrol.apiserver.k8s.io it is the shape of v1: shares
were called `assured` up to v1beta2, and zero means none since v1. In v1beta3 an annotation marks a level
whose shares are zero, because zero would be defaulted.

Sources: pkg/apis/events/v1/conversion.go; pkg/apis/flowcontrol/{v1beta2,v1beta3}/conversion.go, 1.29.
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
PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_GROUP, _KIND = "flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"


def to_core(event: Object) -> None:
    for new, core in _NAMES.items():
        if new in event:
            event[core] = event.pop(new)


def from_core(event: Object) -> None:
    for new, core in _NAMES.items():
        if core in event:
            event[new] = event.pop(core)


EVENT_CONVERTERS = {
    ("events.k8s.io", version, "Event"): (to_core, from_core) for version in ("v1", "v1beta1")
}


def _rename(level: Object, old: str, new: str) -> None:
    limited = (level.get("spec") or {}).get("limited")
    if limited and old in limited:
        limited[new] = limited.pop(old)


def from_assured(level: Object) -> None:
    _rename(level, "assuredConcurrencyShares", "nominalConcurrencyShares")


def to_assured(level: Object) -> None:
    _rename(level, "nominalConcurrencyShares", "assuredConcurrencyShares")


def forget_zero(level: Object) -> None:
    """Removes the annotation that marks zero shares: the field itself has them now."""
    metadata = level.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if annotations.pop(PRESERVE_ZERO, None) is not None and not annotations:
        del metadata["annotations"]


def remember_zero(level: Object) -> None:
    limited = (level.get("spec") or {}).get("limited")
    if limited is not None and limited.get("nominalConcurrencyShares") == 0:
        annotations = level.setdefault("metadata", {}).get("annotations") or {}
        level["metadata"]["annotations"] = {**annotations, PRESERVE_ZERO: ""}


FLOW_CONTROL_CONVERTERS = {
    (_GROUP, "v1beta1", _KIND): (from_assured, to_assured),
    (_GROUP, "v1beta2", _KIND): (from_assured, to_assured),
    (_GROUP, "v1beta3", _KIND): (forget_zero, remember_zero),
}

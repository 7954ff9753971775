"""Remembers when the state behind a service's endpoints last changed, for their annotation.

Source: k8s.io/endpointslice/util/trigger_time_tracker.go, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Key

ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """Remembers each service's pods at its last sync."""

    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, str]] = {}

    def of(self, key: Key, service: Object, selected: Iterable[Object]) -> str:
        """Returns the earliest change since the last call, empty if there is none; for a new service its
        creation."""
        created: str = service["metadata"].get("creationTimestamp") or ""
        times = {"": created}
        for pod in selected:
            ready = find_condition(pod, "Ready") or {}
            times[pod["metadata"]["name"]] = ready.get("lastTransitionTime") or ""
        before = self._seen.get(key)
        self._seen[key] = times
        if before is None:
            return created
        return min((time for name, time in times.items() if time > before.get(name, "")), default="")

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)


def annotated(metadata: Object, time: str) -> Object:
    """Returns the metadata with the annotation; without a new change it is removed."""
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: time}
    if not time:
        del annotations[ANNOTATION]
    return {**metadata, "annotations": annotations}

"""Logs why DynamicResources rejects a pod, or fails, with upstream's texts and keys.

Source: statusUnschedulable, statusError and Filter in pkg/scheduler/framework/plugins/dynamicresources/
dynamicresources.go, 1.32 … 1.36; the loggers' names: pkg/scheduler/framework/runtime/framework.go.
"""

import logging
from collections.abc import Iterable

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.verbosity import Value, level_of, tell
from kubeskew.scheduler.framework.status import Status

log = logging.getLogger(__name__)

_VERBOSITY = 5
# Filters are asked with the pods counted that are nominated to the node, whether there are any or not.
_POINTS = {"Filter": "FilterWithNominatedPods.Filter"}


class RejectionLog:
    """Logs at level 5. `named` says whether loggers name the extension point (ContextualLogging)."""

    def __init__(self, *, named: bool) -> None:
        self._named = named

    @property
    def heard(self) -> bool:
        """Returns whether anybody hears: what a line says need not be made otherwise."""
        return log.isEnabledFor(level_of(_VERBOSITY))

    def rejected(self, point: str, status: Status, **values: Value) -> None:
        """Logs what became of a pod at an extension point; klog writes an error before all values."""
        if status.is_rejected:
            tell(log, _VERBOSITY, "pod unschedulable", **self._name(point), **values, reason=status.message)
        else:
            error = {"err": status.message, **self._name(point), **values}
            tell(log, _VERBOSITY, "dynamic resource plugin failed", **error)

    def elsewhere(self, **values: Value) -> None:
        """Logs that a claim was allocated for other nodes."""
        tell(log, _VERBOSITY, "allocation's node selector does not match", **self._name("Filter"), **values)

    def _name(self, point: str) -> dict[str, Value]:
        return {"logger": f"{_POINTS.get(point, point)}.DynamicResources"} if self._named else {}


def keys_of(claims: Iterable[Object]) -> list[str]:
    """Returns the namespaces and names of claims."""
    return [f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" for claim in claims]

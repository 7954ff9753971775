"""Has components count their calls and events in every run with a plan, whether it disturbs them or not.

Only who has a fault counts, and events only who has one of events. So each has faults that never fire. They
are there in all runs, so that a run with faults goes as the one in which calls were counted, up to the first
that fires; but a fault that is set shifts by microseconds who comes first, so that a number may be another
call's all the same.
"""

from collections.abc import Iterable, Iterator

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.simulation.faults.plan import Fault, fault_of

CALLING = ("controller-manager", "scheduler", "kubelet", "driver", "driver-controller")
WATCHING = ("controller-manager", "scheduler", "kubelet")
_NOWHERE = {"resource": "pods", "name": "of-no-name"}
_COUNTS = (
    ("calls", CALLING, {"verb": "delete", **_NOWHERE, "answer": 500}),
    ("events", WATCHING, {"event": "DELETED", **_NOWHERE, "drop": "connection"}),
)


def counting(components: Iterable[str]) -> Iterator[Fault]:
    """Yields the faults by which these components count."""
    for component in components:
        for what, kinds, never in _COUNTS:
            if kind_of(component) in kinds:
                yield fault_of({"id": f"count-{what}-{component}", "component": component, **never})

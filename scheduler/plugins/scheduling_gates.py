"""SchedulingGates: a pod with gates in its spec is not scheduled yet."""

from collections.abc import Sequence

from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable

NAME = "SchedulingGates"


class SchedulingGates:
    name = NAME

    def events_to_register(self) -> Sequence[EventHint]:
        gone = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_GATES_ELIMINATED)
        return (EventHint(gone),)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        gates = pod.spec.get("schedulingGates") or []
        if not gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate['name'] for gate in gates)}]")

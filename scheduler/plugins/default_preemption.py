"""DefaultPreemption: says why preemption does not help. Victims are not looked for yet."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from scheduler.framework.interfaces import PostFilterResult
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.nodes import NodeInfo
from scheduler.pods import PodInfo

NAME = "DefaultPreemption"

_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"


class DefaultPreemption:
    name = NAME

    def events_to_register(self) -> Sequence[EventHint]:
        return (EventHint(ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)),)

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        if pod.spec.get("preemptionPolicy") == "Never":
            return PostFilterResult(unschedulable("preemption: not eligible due to preemptionPolicy=Never."))
        reasons = Counter(_reason(rejected.get(node.name)) for node in nodes)
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        message = f"preemption: 0/{len(nodes)} nodes are available: {listed}."
        return PostFilterResult(unschedulable(message), nominated_node="")


def _reason(status: Status | None) -> str:
    if status is not None and status.code is Code.UNSCHEDULABLE:
        return _NO_VICTIMS
    return _NOT_HELPFUL

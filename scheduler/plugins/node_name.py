"""NodeName: a pod that names a node goes only there."""

from collections.abc import Hashable, Sequence

from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable

NAME = "NodeName"
REASON = "node(s) didn't match the requested node name"

_MISMATCH = unresolvable(REASON)


class NodeName:
    name = NAME

    def events_to_register(self) -> Sequence[EventHint]:
        return (EventHint(ClusterEvent(EventResource.NODE, Action.ADD)),)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        return PreFilterResult(SUCCESS if pod.spec.get("nodeName") else SKIP)

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        return pod.spec.get("nodeName")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS if fits(pod, node) else _MISMATCH


def fits(pod: PodInfo, node: NodeInfo) -> bool:
    wanted = pod.spec.get("nodeName")
    return not wanted or wanted == node.name

"""NodePorts: the pod's host ports must be free on the node."""

from collections.abc import Hashable, Iterable, Sequence

from kubeskew.apimachinery.pod_resources import HostPort, conflicts, host_ports
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unschedulable

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"

_REJECTED = unschedulable(REASON)


class NodePorts:
    name = NAME

    def __init__(self, *, overlooks_sidecars: bool = False) -> None:
        """`overlooks_sidecars`: the ports of sidecars are free for others, and need not be free for them."""
        self._overlooks_sidecars = overlooks_sidecars

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)),
            EventHint(ClusterEvent(EventResource.NODE, Action.ADD)),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        return PreFilterResult(SUCCESS if self._ports(pod) else SKIP)

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        return self._ports(pod)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        taken: Iterable[HostPort] = node.ports
        if self._overlooks_sidecars:
            taken = (port for other in node.pods.values() for port in sorted(self._ports(other)))
        return _REJECTED if conflicts(self._ports(pod), taken) else SUCCESS

    def _ports(self, pod: PodInfo) -> frozenset[HostPort]:
        if self._overlooks_sidecars and pod.spec.get("initContainers"):
            return host_ports(pod.spec, of_sidecars=False)
        return pod.host_ports

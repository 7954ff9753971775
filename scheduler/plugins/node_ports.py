"""NodePorts: the pod's host ports must be free on the node."""

from collections.abc import Hashable, Iterable, Sequence

from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import HostPort, PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unschedulable

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the wildcard of host ports
_REJECTED = unschedulable(REASON)


class NodePorts:
    name = NAME

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)),
            EventHint(ClusterEvent(EventResource.NODE, Action.ADD)),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        return PreFilterResult(SUCCESS if pod.host_ports else SKIP)

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        return pod.host_ports

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return _REJECTED if conflicts(pod.host_ports, node.ports) else SUCCESS


def conflicts(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Returns whether any two share port and protocol, and their addresses overlap."""
    used = list(taken)
    return any(
        (protocol, port) == (other_protocol, other_port)
        and (address == other_address or _ANY_ADDRESS in (address, other_address))
        for address, protocol, port in wanted
        for other_address, other_protocol, other_port in used
    )

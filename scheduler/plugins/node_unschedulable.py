"""NodeUnschedulable: a cordoned node takes only pods that tolerate that."""

from collections.abc import Hashable, Sequence

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import is_tolerated
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, is_same_pod
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable

NAME = "NodeUnschedulable"
REASON = "node(s) were unschedulable"

_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_REJECTED = unresolvable(REASON).of(NAME)


class NodeUnschedulable:
    name = NAME

    def __init__(self, *, ignores_tolerations: bool = False) -> None:
        """`ignores_tolerations`: a rejected pod that gets a toleration is not tried again."""
        self._ignores_tolerations = ignores_tolerations

    def events_to_register(self) -> Sequence[EventHint]:
        nodes = EventHint(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _may_run)
        if self._ignores_tolerations:
            return (nodes,)
        own = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION)
        return nodes, EventHint(own, is_same_pod)

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        return orjson.dumps(pod.spec.get("tolerations"))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS if not node.unschedulable or fits(pod, node) else _REJECTED


def fits(pod: PodInfo, node: NodeInfo) -> bool:
    if not node.unschedulable:
        return True
    return is_tolerated(_TAINT, pod.spec.get("tolerations") or ())


def _may_run(pod: Object, old: Object | None, new: Object | None) -> bool:  # noqa: ARG001 - a Hint
    if new is None or (new.get("spec") or {}).get("unschedulable"):
        return False
    return old is None or bool((old.get("spec") or {}).get("unschedulable"))

"""NodeResourcesFit: the node has what the pod asks for; and LeastAllocated scoring.

Extended resources that a DRA driver backs on a node are left to DynamicResources.
"""

from collections.abc import Sequence

from scheduler.extended_resources import ExtendedResources
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, Object
from scheduler.framework.interfaces import MAX_NODE_SCORE, PreFilterResult
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.nodes import NodeInfo
from scheduler.pods import PodInfo, amounts, pod_requests

NAME = "NodeResourcesFit"

_SCORED = ("cpu", "memory")


class NodeResourcesFit:
    name = NAME

    def __init__(self, extended: ExtendedResources | None) -> None:
        """`extended` is None if extended resources are not backed by DRA (gate off)."""
        self._extended = extended

    def events_to_register(self) -> Sequence[EventHint]:
        pods = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        hints = [EventHint(pods), EventHint(nodes, self._node_may_fit)]
        if self._extended is not None:
            classes = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
            hints.append(EventHint(classes, self._extended.class_may_help))
        return hints

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        asked = [
            (name, amount, self._has_class(name))
            for name, amount in pod.requests.items()
            if amount and name != "pods"
        ]
        state.write(NAME, asked)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        if len(node.pods) + 1 <= node.max_pods and self._enough(state, node):
            return SUCCESS
        reasons, resolvable = self._missing(state, node)
        return Status(Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE, reasons, NAME)

    def _enough(self, state: CycleState, node: NodeInfo) -> bool:
        allocatable, requested = node.allocatable, node.requested
        for name, asked, has_class in state.read(NAME):
            has = allocatable.get(name, 0)
            if asked > has - requested.get(name, 0) and not (has_class and has <= 0):
                return False
        return True

    def _missing(self, state: CycleState, node: NodeInfo) -> tuple[tuple[str, ...], bool]:
        """Everything that is missing; not resolvable if even an empty node would not have it."""
        reasons: list[str] = []
        resolvable = True
        if len(node.pods) + 1 > node.max_pods:
            reasons.append("Too many pods")
        for name, asked, has_class in state.read(NAME):
            has = node.allocatable.get(name, 0)
            if asked > has - node.requested.get(name, 0) and not (has_class and has <= 0):
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and asked <= has
        return tuple(reasons), resolvable

    def _has_class(self, name: str) -> bool:
        """Whether DRA provides the resource on nodes where no device plugin has any of it."""
        return self._extended is not None and self._extended.class_for(name) is not None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """LeastAllocated: the mean of what stays free of cpu and memory."""
        key = (NAME, pod.scored_size)
        known = node.memo.get(key)
        if known is None:
            known = node.memo[key] = least_allocated(pod, node)
        return known

    def _node_may_fit(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None:
            return False
        has = amounts((new.get("status") or {}).get("allocatable"))
        return all(
            asked <= has.get(name, 0)
            or (
                self._extended is not None
                and not has.get(name)
                and self._extended.class_for(name) is not None
            )
            for name, asked in pod_requests(pod["spec"]).items()
            if asked and name != "pods"
        )


def least_allocated(pod: PodInfo, node: NodeInfo) -> int:
    shares = [
        max(0, has - node.scored.get(name, 0) - asked) * MAX_NODE_SCORE // has
        for name, asked in zip(_SCORED, pod.scored_size, strict=True)
        if (has := node.allocatable.get(name, 0)) > 0
    ]
    return sum(shares) // len(shares) if shares else 0

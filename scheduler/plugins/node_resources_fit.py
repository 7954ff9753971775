"""NodeResourcesFit: the node has what the pod asks for; and how full it should get.

Extended resources that a DRA driver backs on a node are left to DynamicResources.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.extended_resources import ExtendedResources
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, Object
from scheduler.framework.interfaces import PreFilterResult
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.nodes import NodeInfo
from scheduler.plugins.resource_scoring import Strategy
from scheduler.pods import PodInfo, amounts, pod_requests

NAME = "NodeResourcesFit"


class NodeResourcesFit:
    name = NAME

    def __init__(
        self,
        extended: ExtendedResources | None,
        args: Mapping[str, Any] | None = None,
        *,
        always_resolvable: bool = False,
    ) -> None:
        """`extended` is None if extended resources are not backed by DRA (gate off).

        `args` are NodeResourcesFitArgs. `always_resolvable`: a node too small for the pod counts as one
        that preemption may help.
        """
        self._extended = extended
        self._strategy = Strategy.of(args or {})
        self._ignored = frozenset((args or {}).get("ignoredResources") or ())
        self._ignored_groups = frozenset((args or {}).get("ignoredResourceGroups") or ())
        names = {name for name, _ in self._strategy.resources}
        self._scores_only_size = names <= {"cpu", "memory"}
        self._always_resolvable = always_resolvable

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
            if amount and name != "pods" and not self._is_ignored(name)
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
                resolvable = resolvable and (self._always_resolvable or asked <= has)
        return tuple(reasons), resolvable

    def _is_ignored(self, name: str) -> bool:
        group, slash, _ = name.partition("/")
        return bool(slash) and (name in self._ignored or group in self._ignored_groups)

    def _has_class(self, name: str) -> bool:
        """Whether DRA provides the resource on nodes where no device plugin has any of it."""
        return self._extended is not None and self._extended.class_for(name) is not None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        if not self._scores_only_size:
            return self._strategy.score(pod, node)
        key = (self._strategy, pod.scored_size)
        known: int | None = node.memo.get(key)
        if known is None:
            known = node.memo[key] = self._strategy.score(pod, node)
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

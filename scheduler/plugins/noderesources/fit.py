"""NodeResourcesFit: checks that the node has what the pod requests, and scores how full it would be.

It leaves extended resources that a DRA driver backs on a node to DynamicResources.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.device_totals import DeviceTotals
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.extended_resource_cache import ExtendedResources, class_may_help
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, amounts, pod_requests
from kubeskew.scheduler.framework.status import SUCCESS, Code, Status
from kubeskew.scheduler.plugins.noderesources.scoring import Strategy

NAME = "NodeResourcesFit"


_Amounts = tuple[tuple[str, int, bool], ...]  # resource, amount, whether DRA may have it


class NodeResourcesFit:
    name = NAME

    def __init__(
        self,
        extended: ExtendedResources | None,
        args: Mapping[str, Any] | None = None,
        *,
        totals: DeviceTotals | None = None,
        always_resolvable: bool = False,
        waits_for_classes: bool = True,
    ) -> None:
        """`extended` is None if DRA backs no extended resources (gate off); `totals` count them for scores.

        `args` are NodeResourcesFitArgs. `always_resolvable`: a node too small for the pod counts as one that
        preemption may help. `waits_for_classes`: pods are tried again when a class comes or changes its name.
        """
        self._extended = extended
        self._totals = totals
        self._strategy = Strategy.of(args or {})
        self._ignored = frozenset((args or {}).get("ignoredResources") or ())
        self._ignored_groups = frozenset((args or {}).get("ignoredResourceGroups") or ())
        names = {name for name, _ in self._strategy.resources}
        self._scores_only_size = names <= {"cpu", "memory"}
        self._always_resolvable = always_resolvable
        self._waits_for_classes = waits_for_classes

    def events_to_register(self) -> Sequence[EventHint]:
        pods = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        hints = [EventHint(pods), EventHint(nodes, self._node_may_fit)]
        if self._extended is not None and self._waits_for_classes:
            classes = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
            hints.append(EventHint(classes, class_may_help))
        return hints

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        wanted = {name: amount for name, amount in pod.requests.items() if amount and name != "pods"}
        delegated = self._extended.delegated(wanted) if self._extended is not None else frozenset()
        asked = tuple(
            (name, amount, name in delegated) for name, amount in wanted.items() if not self._is_ignored(name)
        )
        state.write(NAME, asked)
        return PreFilterResult()

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        asked: _Amounts = state.read(NAME)
        return asked

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        reasons, resolvable = self._missing(state.read(NAME), node)
        if not reasons:
            return SUCCESS
        return Status(Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE, reasons, NAME)

    def _is_lacking(self, allocatable: Mapping[str, int], name: str) -> bool:
        return self._extended is not None and self._extended.is_lacking(allocatable, name)

    def _missing(self, wanted: _Amounts, node: NodeInfo) -> tuple[tuple[str, ...], bool]:
        """Lists all that is missing; the second part is False if even an empty node would lack it."""
        reasons: list[str] = []
        resolvable = True
        if len(node.pods) + 1 > node.max_pods:
            reasons.append("Too many pods")
        for name, asked, delegated in wanted:
            has = node.allocatable.get(name, 0)
            if asked > has - node.requested.get(name, 0) and not (
                delegated and self._is_lacking(node.allocatable, name)
            ):
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and (self._always_resolvable or asked <= has)
        return tuple(reasons), resolvable

    def _is_ignored(self, name: str) -> bool:
        group, slash, _ = name.partition("/")
        return bool(slash) and (name in self._ignored or group in self._ignored_groups)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self._strategy.score(pod, node, self._totals)

    def score_signature(self, pod: PodInfo) -> Hashable | None:
        return pod.scored_size if self._scores_only_size else None

    def _node_may_fit(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """A change helps if the empty node would take the pod, and is new or has more of its resources than
        before."""
        if new is None:
            return False
        wanted = {name: amount for name, amount in pod_requests(pod["spec"]).items() if amount}
        wanted["pods"] = 1
        extended = self._extended
        left = extended.delegated(wanted, in_hints=True) if extended is not None else frozenset()
        has = amounts((new.get("status") or {}).get("allocatable"))
        left = {name for name in left if self._is_lacking(has, name)}
        if any(amount > has.get(name, 0) and name not in left for name, amount in wanted.items()):
            return False
        if old is None or left:
            return True
        had = amounts((old.get("status") or {}).get("allocatable"))
        return any(has.get(name, 0) > had.get(name, 0) for name in wanted)

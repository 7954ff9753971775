"""NodeResourcesBalancedAllocation: prefer nodes whose resources are used evenly.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go, 1.36.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kubeskew.scheduler.allocator.device_totals import DeviceTotals
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status
from kubeskew.scheduler.plugins.noderesources.scoring import supply, weighted

NAME = "NodeResourcesBalancedAllocation"

_SIZE = ("cpu", "memory")


class NodeResourcesBalancedAllocation:
    name = NAME

    def __init__(
        self,
        args: Mapping[str, Any] | None = None,
        totals: DeviceTotals | None = None,
        *,
        by_change: bool = True,
    ) -> None:
        """`args` are NodeResourcesBalancedAllocationArgs; `totals` count what DRA backs. `by_change`: what
        the pod changes counts, not how the node is with it."""
        self._totals = totals
        self._by_change = by_change
        self._resources = tuple(name for name, _ in weighted((args or {}).get("resources")))
        self._only_size = self._resources == _SIZE

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Skips pods that request none of the resources (best effort)."""
        return SUCCESS if any(pod.requests.get(name) for name in self._resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        with_pod, without = shares(pod, node, self._resources, self._totals)
        if not self._by_change:
            return evenness(with_pod)
        # Both are at least half of the highest score, so that their difference is at most half of it.
        change = evenness(with_pod) - evenness(without)
        return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + change) // 2

    def score_signature(self, pod: PodInfo) -> Hashable | None:
        return pod.size if self._only_size else None


def shares(
    pod: PodInfo, node: NodeInfo, resources: Sequence[str] = _SIZE, totals: DeviceTotals | None = None
) -> tuple[Sequence[float], Sequence[float]]:
    """Returns the shares of a node's resources that are in use, with the pod and without it."""
    with_pod, without = [], []
    for name in resources:
        asked = pod.requests.get(name, 0)
        if name not in _SIZE and not asked:
            continue
        has, used = supply(node, name, node.requested, totals)
        if has > 0:
            with_pod.append(min(1.0, (used + asked) / has))
            without.append(min(1.0, used / has))
    return with_pod, without


def evenness(in_use: Sequence[float]) -> int:
    """Even use scores high: 1 minus the standard deviation of the shares in use."""
    deviation = 0.0
    if len(in_use) == 2:
        deviation = abs(in_use[0] - in_use[1]) / 2
    elif len(in_use) > 2:
        mean = sum(in_use) / len(in_use)
        deviation = (sum((share - mean) ** 2 for share in in_use) / len(in_use)) ** 0.5
    return int((1 - deviation) * MAX_NODE_SCORE)

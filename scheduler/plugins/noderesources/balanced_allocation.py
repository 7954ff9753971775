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

    def __init__(self, args: Mapping[str, Any] | None = None, totals: DeviceTotals | None = None) -> None:
        """`args` are NodeResourcesBalancedAllocationArgs; `totals` count what DRA backs."""
        self._totals = totals
        self._resources = tuple(name for name, _ in weighted((args or {}).get("resources")))
        self._only_size = self._resources == _SIZE

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Skips pods that request none of the resources (best effort)."""
        return SUCCESS if any(pod.requests.get(name) for name in self._resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return balance(pod, node, self._resources, self._totals)

    def score_signature(self, pod: PodInfo) -> Hashable | None:
        return pod.size if self._only_size else None


def balance(
    pod: PodInfo, node: NodeInfo, resources: Sequence[str] = _SIZE, totals: DeviceTotals | None = None
) -> int:
    """Even use scores high: 1 minus the standard deviation of the shares in use."""
    shares = []
    for name in resources:
        asked = pod.requests.get(name, 0)
        if name not in _SIZE and not asked:
            continue
        has, used = supply(node, name, node.requested, totals)
        if has > 0:
            shares.append(min(1.0, (used + asked) / has))
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = (sum((share - mean) ** 2 for share in shares) / len(shares)) ** 0.5
    return int((1 - deviation) * MAX_NODE_SCORE)

"""The scoring strategies of NodeResourcesFit, which say how full a node should get.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources, 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.scheduler.allocator.device_totals import DeviceTotals
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo

_DEFAULT_RESOURCES: Sequence[Mapping[str, Any]] = ({"name": "cpu"}, {"name": "memory"})
_BASIC = frozenset({"cpu", "memory"})
_MAX_UTILISATION = 100
_SHAPE_SCALE = MAX_NODE_SCORE // 10  # scores of a shape go from 0 to 10


@dataclass(frozen=True, slots=True)
class Strategy:
    kind: str = "LeastAllocated"
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, args: Mapping[str, Any]) -> "Strategy":
        found = args.get("scoringStrategy") or {}
        shape = (found.get("requestedToCapacityRatio") or {}).get("shape") or ()
        return cls(
            found.get("type") or "LeastAllocated",
            weighted(found.get("resources")),
            tuple((point["utilization"], point["score"] * _SHAPE_SCALE) for point in shape),
        )

    def score(self, pod: PodInfo, node: NodeInfo, totals: DeviceTotals | None = None) -> int:
        total = weights = 0
        for name, weight in self.resources:
            asked = pod.fitting_requests.get(name, 0)
            if name not in _BASIC and not asked:
                continue  # a resource that the pod does not request does not count
            has, used = supply(node, name, node.scored, totals)
            if has <= 0:
                continue
            score = self._one(used + asked, has)
            if self.kind == "RequestedToCapacityRatio" and score <= 0:
                continue
            total += score * weight
            weights += weight
        if not weights:
            return 0
        if self.kind == "RequestedToCapacityRatio":
            return round(total / weights)
        return total // weights

    def _one(self, used: int, has: int) -> int:
        if self.kind == "MostAllocated":
            return min(used, has) * MAX_NODE_SCORE // has
        if self.kind == "RequestedToCapacityRatio":
            return _on(self.shape, _MAX_UTILISATION if used > has else used * _MAX_UTILISATION // has)
        return 0 if used > has else (has - used) * MAX_NODE_SCORE // has


def supply(
    node: NodeInfo, name: str, used: Mapping[str, int], totals: DeviceTotals | None
) -> tuple[int, int]:
    """Pairs what the node has of a resource, by itself or in devices of DRA drivers, with what is in use."""
    has = node.allocatable.get(name, 0)
    if has == 0 and totals is not None and name not in _BASIC:
        return totals.of(name, node)
    return has, used.get(name, 0)


def weighted(resources: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, int], ...]:
    """Without `resources`, cpu and memory count alike."""
    return tuple(
        (resource["name"], resource.get("weight") or 1) for resource in resources or _DEFAULT_RESOURCES
    )


def _on(shape: Sequence[tuple[int, int]], at: int) -> int:
    """Value at a point of the shape's broken line, flat at both ends; divisions truncate."""
    for index, (x, y) in enumerate(shape):
        if at <= x:
            if index == 0:
                return y
            left, low = shape[index - 1]
            return low + int((y - low) * (at - left) / (x - left))
    return shape[-1][1] if shape else 0

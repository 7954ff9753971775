"""Decides how many nodes that fit are enough, and where to begin to look.

Source: k8s.io/kubernetes/pkg/scheduler/schedule_one.go, numFeasibleNodesToFind, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.scheduler.framework.node_info import NodeInfo

_ALL_UP_TO = 100  # nodes; in smaller clusters every node is checked
_MIN_PERCENT = 5


class NodeSampler:
    """Goes round the nodes, so that each gets its turn."""

    def __init__(self) -> None:
        self._start = 0
        self._length = 0

    @staticmethod
    def wanted(nodes: int, percent: int = 0) -> int:
        """Returns how many feasible nodes end the search in a cluster of that size; 0 percent depends on
        it."""
        if nodes < _ALL_UP_TO:
            return max(nodes, 1)
        percent = percent or max(50 - nodes // 125, _MIN_PERCENT)
        return max(nodes * percent // 100, _ALL_UP_TO)

    def in_turn(self, nodes: Sequence[NodeInfo]) -> Iterator[NodeInfo]:
        self._length = len(nodes)
        start = self._start % self._length if nodes else 0
        yield from nodes[start:]
        yield from nodes[:start]

    def looked_at(self, number: int) -> None:
        """Has the next search begin after these."""
        if self._length:
            self._start = (self._start + number) % self._length

"""NodeResourcesBalancedAllocation: prefer nodes whose cpu and memory are used evenly."""

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interfaces import MAX_NODE_SCORE
from scheduler.nodes import NodeInfo
from scheduler.pods import PodInfo

NAME = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation:
    name = NAME

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        cpu = _fraction("cpu", pod, node)
        memory = _fraction("memory", pod, node)
        # The standard deviation of two numbers is half their distance.
        return int((1 - abs(cpu - memory) / 2) * MAX_NODE_SCORE)


def _fraction(name: str, pod: PodInfo, node: NodeInfo) -> float:
    has = node.allocatable.get(name, 0)
    if has <= 0:
        return 1.0
    return min(1.0, (node.requested.get(name, 0) + pod.requests.get(name, 0)) / has)

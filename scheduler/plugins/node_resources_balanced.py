"""NodeResourcesBalancedAllocation: prefer nodes whose cpu and memory are used evenly."""

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interfaces import MAX_NODE_SCORE
from scheduler.nodes import NodeInfo
from scheduler.pods import PodInfo

NAME = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation:
    name = NAME

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        key = (NAME, pod.size)
        known = node.memo.get(key)
        if known is None:
            known = node.memo[key] = balance(pod, node)
        return known


def balance(pod: PodInfo, node: NodeInfo) -> int:
    asked_cpu, asked_memory = pod.size
    cpu = _fraction("cpu", asked_cpu, node)
    memory = _fraction("memory", asked_memory, node)
    # The standard deviation of two numbers is half their distance.
    return int((1 - abs(cpu - memory) / 2) * MAX_NODE_SCORE)


def _fraction(name: str, asked: int, node: NodeInfo) -> float:
    has = node.allocatable.get(name, 0)
    if has <= 0:
        return 1.0
    return min(1.0, (node.requested.get(name, 0) + asked) / has)

"""Finds whether a node's pods could go elsewhere, so that the node can be removed.

Unlike the autoscaler, which stops at the first pod that stands in the way, every pod is looked at.

Source: cluster-autoscaler 1.35, simulator/cluster.go (RemovalSimulator), simulator/drain.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubeskew.scheduler.autoscaling.drainability import DrainContext, Outcome, drainable
from kubeskew.scheduler.autoscaling.equivalence import is_daemon_set_pod
from kubeskew.scheduler.autoscaling.snapshot import ClusterSnapshot
from kubeskew.scheduler.autoscaling.templates import TO_BE_DELETED
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo

_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class UnknownNodeError(Exception):
    """There is no node of that name."""


@dataclass(slots=True)
class Removal:
    """The answer: where pods would go, which go with the node, and what stands in the way."""

    node: str
    moved: list[tuple[PodInfo, str]] = field(default_factory=list)
    with_node: list[PodInfo] = field(default_factory=list)
    stuck: list[tuple[PodInfo, str]] = field(default_factory=list)  # with the reason
    disabled: bool = False  # an annotation of the node forbids its removal

    @property
    def possible(self) -> bool:
        return not self.stuck and not self.disabled


def simulate_removal(snapshot: ClusterSnapshot, name: str, context: DrainContext) -> Removal:
    """Simulates the removal of a node. Raises UnknownNodeError, SimulationError."""
    info = snapshot.node(name)
    if info is None or info.node is None:
        raise UnknownNodeError(name)
    annotations = info.node["metadata"].get("annotations") or {}
    answer = Removal(name, disabled=annotations.get(_DISABLED) == "true")
    snapshot.fork()
    movable = _sorted_out(answer, info, context)
    for pod in movable:
        snapshot.evict(pod, name)
    _taint(snapshot, info, context)
    for pod in map(_without_node, movable):
        node = snapshot.schedule_anywhere(pod, lambda other: other.name != name)
        if node is None:
            answer.stuck.append((pod, f"no place to move it: {snapshot.diagnose(pod)}"))
        else:
            answer.moved.append((pod, node))
    snapshot.revert()
    return answer


def _sorted_out(answer: Removal, info: NodeInfo, context: DrainContext) -> Sequence[PodInfo]:
    """Returns the pods that are to be moved, and notes the others."""
    movable = []
    for pod in info.pods.values():
        verdict = drainable(pod, context)
        if verdict.outcome is Outcome.BLOCK:
            answer.stuck.append((pod, f"{verdict.message} ({verdict.reason})"))
        elif verdict.outcome is Outcome.SKIP or is_daemon_set_pod(pod):
            answer.with_node.append(pod)
        else:
            movable.append(pod)
    return movable


def _taint(snapshot: ClusterSnapshot, info: NodeInfo, context: DrainContext) -> None:
    """Keeps the node as it is while it is drained: tainted, but a domain of topology constraints still."""
    node = info.node or {}
    spec = node.get("spec") or {}
    taint = {"key": TO_BE_DELETED, "value": str(int(context.now.timestamp())), "effect": "NoSchedule"}
    snapshot.change_node({**node, "spec": {**spec, "taints": [*(spec.get("taints") or ()), taint]}})


def _without_node(pod: PodInfo) -> PodInfo:
    spec = {key: value for key, value in pod.spec.items() if key != "nodeName"}
    return PodInfo({**pod.pod, "spec": spec})

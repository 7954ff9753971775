"""Finds whether a node can be removed: whether each of its pods may be moved away, and could go elsewhere.

Unlike the autoscaler, which stops at the first pod that stands in the way, every pod is looked at.

Sources: cluster-autoscaler 1.35, simulator/drainability/rules and utils/drain, with the flags' defaults;
cluster-autoscaler 1.35, simulator/cluster.go (RemovalSimulator), simulator/drain.go.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.scheduler.autoscaling.estimator import is_daemon_set_pod
from kubeskew.scheduler.autoscaling.snapshot import TO_BE_DELETED, ClusterSnapshot
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_MIRROR = "kubernetes.io/config.mirror"

_REPLICATING = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")
_DEFAULT_GRACE_SECONDS = 30
_TERMINATING_EXTRA = timedelta(seconds=30)
_SYSTEM_POD_DISRUPTION = timedelta(hours=1)  # --blocking-system-pod-distruption-timeout

# The owner of a pod: kind, namespace, name → whether there is one.
OwnerLookup = Callable[[str, str, str], bool]
_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class Outcome(Enum):
    """The fate of a pod in a drain."""

    MOVE = "move"
    SKIP = "skip"  # it goes with the node, or is on its way already
    BLOCK = "block"


class DrainabilityStatus(NamedTuple):
    """A rule's answer; `reason` is upstream's name of it, `message` its text."""

    outcome: Outcome
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class DrainContext:
    """`has_owner` is None where owners are not known."""

    now: datetime
    budgets: Sequence[Object] = field(default_factory=tuple)
    has_owner: OwnerLookup | None = None

    def matching_budgets(self, pod: PodInfo) -> list[Object]:
        return [
            budget
            for budget in self.budgets
            if budget["metadata"].get("namespace", "") == pod.namespace
            and LabelSelector.from_object((budget.get("spec") or {}).get("selector")).matches(pod.labels)
        ]


_MOVE = DrainabilityStatus(Outcome.MOVE)
_SKIP = DrainabilityStatus(Outcome.SKIP)
_Rule = Callable[[PodInfo, DrainContext], DrainabilityStatus | None]


def drainable(pod: PodInfo, context: DrainContext) -> DrainabilityStatus:
    """The first rule with an answer decides; a pod about which none has one may be moved."""
    for rule in RULES:
        verdict = rule(pod, context)
        if verdict is not None:
            return verdict
    return _MOVE


def _blocked(reason: str, message: str) -> DrainabilityStatus:
    return DrainabilityStatus(Outcome.BLOCK, reason, message)


def _annotations(pod: PodInfo) -> Mapping[str, Any]:
    return pod.pod["metadata"].get("annotations") or {}


def _mirror(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    return _SKIP if _MIRROR in _annotations(pod) else None


def _long_terminating(pod: PodInfo, context: DrainContext) -> DrainabilityStatus | None:
    deleted = pod.pod["metadata"].get("deletionTimestamp")
    if not deleted:
        return None
    grace = pod.spec.get("terminationGracePeriodSeconds")
    seconds = _DEFAULT_GRACE_SECONDS if grace is None else grace
    over = parse_timestamp(deleted) + timedelta(seconds=seconds) + _TERMINATING_EXTRA
    return _SKIP if over < context.now else None


def _owner_is_there(pod: PodInfo, context: DrainContext) -> DrainabilityStatus | None:
    owner = controller_of(pod.pod)
    if owner is None or context.has_owner is None or owner["kind"] not in (*_REPLICATING, "DaemonSet"):
        return None
    if context.has_owner(owner["kind"], pod.namespace, owner["name"]):
        return None
    return _blocked("ControllerNotFound", f"{_worded(owner['kind'])} for {pod.key} is not available")


def _worded(kind: str) -> str:
    """Upstream's messages call ReplicaSets replication controllers, too; other kinds are in lower case."""
    if kind in ("ReplicationController", "ReplicaSet"):
        return "replication controller"
    return kind.lower()


def _daemon_set(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    return _MOVE if is_daemon_set_pod(pod) else None


def _safe_to_evict(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    return _MOVE if _annotations(pod).get(SAFE_TO_EVICT) == "true" else None


def _terminal(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    phase = (pod.pod.get("status") or {}).get("phase")
    restarts = pod.spec.get("restartPolicy")
    ended = phase == "Succeeded" and restarts in ("Never", "OnFailure")
    return _MOVE if ended or phase == "Failed" else None


def _replicated(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    owner = controller_of(pod.pod)
    if owner is not None and owner["kind"] in _REPLICATING:
        return None
    return _blocked("NotReplicated", f"{pod.key} is not replicated")


def _system(pod: PodInfo, context: DrainContext) -> DrainabilityStatus | None:
    if pod.namespace != "kube-system" or context.matching_budgets(pod):
        return None
    created = pod.pod["metadata"].get("creationTimestamp")
    if created and context.now > parse_timestamp(created) + _SYSTEM_POD_DISRUPTION:
        return _MOVE
    text = f"non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {pod.name}"
    return _blocked("UnmovableKubeSystemPod", text)


def _not_safe_to_evict(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    if _annotations(pod).get(SAFE_TO_EVICT) != "false":
        return None
    return _blocked("NotSafeToEvictAnnotation", f"pod annotated as not safe to evict present: {pod.name}")


def _local_storage(pod: PodInfo, _: DrainContext) -> DrainabilityStatus | None:
    harmless = str(_annotations(pod).get(SAFE_VOLUMES) or "").split(",")
    for volume in pod.spec.get("volumes") or ():
        if _is_local(volume) and volume["name"] not in harmless:
            return _blocked("LocalStorageRequested", f"pod with local storage present: {pod.name}")
    return None


def _is_local(volume: Mapping[str, Any]) -> bool:
    empty = volume.get("emptyDir")
    return volume.get("hostPath") is not None or (empty is not None and empty.get("medium") != "Memory")


def _budget(pod: PodInfo, context: DrainContext) -> DrainabilityStatus | None:
    for budget in context.matching_budgets(pod):
        if ((budget.get("status") or {}).get("disruptionsAllowed") or 0) < 1:
            return _blocked("NotEnoughPdb", f"not enough pod disruption budget to move {pod.key}")
    return None


RULES: Sequence[_Rule] = (
    _mirror,
    _long_terminating,
    _owner_is_there,
    _daemon_set,
    _safe_to_evict,
    _terminal,
    _replicated,
    _system,
    _not_safe_to_evict,
    _local_storage,
    _budget,
)


class UnknownNodeError(Exception):
    pass


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
    """The snapshot is as before afterwards. Raises UnknownNodeError, SimulationError."""
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
    """Notes in `answer` the pods that stay or go with the node; the others are to be moved."""
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

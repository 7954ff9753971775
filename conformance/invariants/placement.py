"""Judges the placing of pods: I04 schedulable-is-scheduled, I05 bound-is-admitted, I21 preemption-contract,
I22 declared-effect."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.selectors.nodes import affinity_matches, is_tolerated, untolerated
from kubeskew.conformance.evidence.log import uid_of
from kubeskew.conformance.invariants.cluster import Change, Cluster, condition, is_deleting, named
from kubeskew.conformance.invariants.invariant import (
    USUAL,
    Evidence,
    LivenessInvariant,
    SafetyInvariant,
    Tolerance,
)

# What kubelets say of pods that they do not admit for what a scheduler judges by, too
# (kubernetes/pkg/kubelet/lifecycle, 1.36).
UNFIT = (
    "OutOf",
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodePorts",
    "NodeName",
    "TopologyAffinityError",
)
# What a scheduler's cache may lag behind.
_PREEMPTED = "PreemptionByScheduler"


class SchedulableIsScheduled(LivenessInvariant):
    """I04: a pod for which a feasible node exists when all is at rest has been bound."""

    code = "I04"
    name = "schedulable-is-scheduled"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or not cluster.running("scheduler", "apiserver"):
            return
        for pod in cluster.all("pods"):
            spec = pod.get("spec") or {}
            if spec.get("nodeName") or spec.get("schedulingGates") or is_deleting(pod) or is_terminal(pod):
                continue
            if node := evidence.feasible.get(uid_of(pod)):
                why = condition(pod, "PodScheduled").get("message") or "nothing is said about it"
                if evidence.unready:
                    why += f"; the scheduler is not ready: {evidence.unready}"
                yield f"{named(pod)} fits node {node} and is not bound: {why}"


class BoundIsAdmitted(SafetyInvariant):
    """I05: what the scheduler bound is admitted by the kubelet of the node, unless the node changed since.

    A pod that ran was admitted. If a kubelet that starts again refuses it then, that is I06's.
    """

    code = "I05"
    name = "bound-is-admitted"

    def __init__(self) -> None:
        self._bound: dict[str, ObjectView | None] = {}  # by pod: the node as it was

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        pod = change.now
        if change.write.resource != "pods" or pod is None:
            return
        node = (pod.get("spec") or {}).get("nodeName")
        if change.before is None or not node:
            return
        if not (change.before.get("spec") or {}).get("nodeName"):
            if change.write.by.startswith("kube-scheduler"):
                self._bound[uid_of(pod)] = cluster.get("nodes", "", node)
            return
        status, old = pod.get("status") or {}, change.before.get("status") or {}
        reason = str(status.get("reason") or "")
        if (
            status.get("phase") != "Failed"
            or old.get("phase") not in (None, "Pending")
            or not reason.startswith(UNFIT)
        ):
            return
        if uid_of(pod) in self._bound and _offers(self._bound[uid_of(pod)]) == _offers(
            cluster.get("nodes", "", node)
        ):
            why = f"{reason}: {status.get('message')}"
            yield f"{change.text} was bound to node {node} and refused there: {why}"


def _offers(node: ObjectView | None) -> tuple[object, ...]:
    if node is None:
        return ()
    return (
        node["metadata"].get("labels"),
        (node.get("spec") or {}).get("taints"),
        (node.get("status") or {}).get("allocatable"),
    )


class PreemptionContract(LivenessInvariant):
    """I21: pods are preempted only for a pod that then gets the room, and only for one of higher priority."""

    code = "I21"
    name = "preemption-contract"

    def __init__(self) -> None:
        self._victims: defaultdict[str, list[str]] = defaultdict(list)  # by node
        self._nominated: dict[str, tuple[str, int, str]] = {}  # uid → node, priority, text
        self._went: list[tuple[datetime, int, str]] = []  # pods that waited: when, priority, text

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        pod = change.write.value
        if change.write.resource != "pods":
            return
        if change.now is None and not (pod.get("spec") or {}).get("nodeName"):
            self._went.append((parse_timestamp(change.write.time), _priority(pod), named(pod)))
        node = (pod.get("status") or {}).get("nominatedNodeName")
        if node:
            self._nominated[uid_of(pod)] = node, _priority(pod), named(pod)
        why = condition(pod, "DisruptionTarget")
        if why.get("reason") != _PREEMPTED or condition(change.before or {}, "DisruptionTarget"):
            return
        place = (pod.get("spec") or {}).get("nodeName") or ""
        self._victims[place].append(named(pod))
        waiting = [each for each in cluster.all("pods") if not (each.get("spec") or {}).get("nodeName")]
        if all(_priority(each) <= _priority(pod) for each in waiting):
            went = self._last_waiting(_priority(pod), change.write.time)
            yield f"{change.text} was preempted, and no pod of a higher priority waits{went}"

    def _last_waiting(self, priority: int, time: str) -> str:
        """Gives the seconds since the last pod of a higher priority was removed that was on no node."""
        for moment, its_priority, text in reversed(self._went):
            if its_priority > priority:
                seconds = (parse_timestamp(time) - moment).total_seconds()
                return f"; {text}, which did, went {seconds:.1f} s before"
        return ""

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or not cluster.running("scheduler"):
            return
        for pod in cluster.all("pods"):
            node = (pod.get("status") or {}).get("nominatedNodeName")
            if not node or (pod.get("spec") or {}).get("nodeName") or is_deleting(pod):
                continue
            gone = [name for name in self._victims.get(node, []) if self._is_gone(name, cluster)]
            if gone and len(gone) == len(self._victims[node]):
                went = f"whose pods {', '.join(gone)} went for it"
                yield f"{named(pod)} was nominated for node {node}, {went}, and is not bound"

    def _is_gone(self, name: str, cluster: Cluster) -> bool:
        return all(named(pod) != name for pod in cluster.all("pods"))


def _priority(pod: ObjectView) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)


class DeclaredEffect:
    """I22: taints, tolerations and node selectors act as documented on pods that the scheduler binds."""

    code = "I22"
    name = "declared-effect"

    def __init__(self, tolerance: Tolerance = USUAL) -> None:
        self._nodes: defaultdict[str, list[tuple[datetime, ObjectView | None]]] = defaultdict(list)
        self._lag = tolerance.cache_lag + tolerance.clock_skew

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write = change.write
        if write.resource == "nodes":
            if _rules(change.before) != _rules(change.now):
                self._nodes[write.name].append((parse_timestamp(write.time), change.now))
            return
        if write.resource != "pods" or change.now is None or not write.by.startswith("kube-scheduler"):
            return
        pod = change.now
        name = (pod.get("spec") or {}).get("nodeName")
        if not name or ((change.before or {}).get("spec") or {}).get("nodeName"):
            return
        reasons = [_repels(pod, node) for node in self._lately(name, parse_timestamp(write.time))]
        if reasons and all(reasons):
            yield f"{change.text} was bound to node {name}, which {reasons[-1]}"

    def _lately(self, name: str, now: datetime) -> Sequence[ObjectView | None]:
        """A scheduler's cache may show any of these states of the node."""
        history = self._nodes.get(name) or []
        recent = [node for time, node in history if time >= now - self._lag]
        older = [node for time, node in history if time < now - self._lag]
        return [*older[-1:], *recent]

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        """Reports pods that a NoExecute taint should have evicted."""
        if not at_rest or not cluster.running("controller-manager"):
            return
        for pod in cluster.all("pods"):
            node = cluster.get("nodes", "", (pod.get("spec") or {}).get("nodeName") or "")
            if node is None or is_deleting(pod) or is_terminal(pod):
                continue
            for taint in (node.get("spec") or {}).get("taints") or []:
                if taint.get("effect") == "NoExecute" and not is_tolerated(taint, _tolerations(pod)):
                    what = f"does not tolerate its taint {taint['key']}:NoExecute"
                    yield f"{named(pod)} runs on {named(node)} and {what}"


def _rules(node: ObjectView | None) -> tuple[object, ...]:
    if node is None:
        return ()
    spec = node.get("spec") or {}
    return (node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable"))


def _repels(pod: ObjectView, node: ObjectView | None) -> str:
    """Gives the reason that a pod must not go to a node; it is empty if it may."""
    if node is None:
        return "did not exist"
    taint = untolerated((node.get("spec") or {}).get("taints") or [], _tolerations(pod))
    if taint is not None:
        return f"has the taint {taint['key']}:{taint['effect']}, which it does not tolerate"
    if not affinity_matches(dict(pod), dict(node)):
        return "its node selector or affinity does not match"
    return ""


def _tolerations(pod: ObjectView) -> Sequence[ObjectView]:
    return (pod.get("spec") or {}).get("tolerations") or []

"""Groups pending pods that are alike (of one controller, with equal labels and specs), and estimates how many
nodes of a template they need: first fit, the largest pods first.

Sources: cluster-autoscaler 1.35, core/scaleup/equivalence/groups.go; utils/utils.go; cluster-autoscaler 1.35,
estimator/binpacking_estimator.go, decreasing_pod_orderer.go.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import controller_of
from kubeskew.scheduler.autoscaling.snapshot import HOSTNAME, ClusterSnapshot, NodeTemplate
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, amounts
from kubeskew.scheduler.framework.status import Status

_MOST_OF_CONTROLLER = 10  # groups; further pods form groups of one

DAEMON_SET_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_SPREAD_REASON = "node(s) didn't match pod topology spread constraints"

Groups = Sequence[Sequence[PodInfo]]


def is_daemon_set_pod(pod: PodInfo) -> bool:
    owner = controller_of(pod.pod)
    if owner is not None and owner.get("kind") == "DaemonSet":
        return True
    return (pod.pod["metadata"].get("annotations") or {}).get(DAEMON_SET_ANNOTATION) == "true"


def groups(pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
    """Groups come in the order of their first pods; a pod without a controller is alone in one."""
    made: list[list[PodInfo]] = []
    known: dict[str, dict[str, list[PodInfo]]] = {}  # by controller and sign
    for pod in pods:
        owner = controller_of(pod.pod)
        if owner is None or is_daemon_set_pod(pod):
            made.append([pod])
            continue
        of_owner, own = known.setdefault(owner["uid"], {}), sign(pod)
        if own in of_owner:
            of_owner[own].append(pod)
            continue
        group = [pod]
        made.append(group)
        if len(of_owner) < _MOST_OF_CONTROLLER:
            of_owner[own] = group
    return made


class RejectedPods:
    """Remembers pods that fit nowhere, so that those like them need not be tried."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, None]] = {}  # by controller

    def has_like(self, pod: PodInfo) -> bool:
        owner = controller_of(pod.pod)
        return owner is not None and owner["uid"] in self._known and sign(pod) in self._known[owner["uid"]]

    def add(self, pod: PodInfo) -> None:
        owner = controller_of(pod.pod)
        if owner is None or is_daemon_set_pod(pod):
            return
        of_owner = self._known.setdefault(owner["uid"], {})
        if len(of_owner) < _MOST_OF_CONTROLLER:
            of_owner[sign(pod)] = None


def sign(pod: PodInfo) -> str:
    """The text is equal for pods with equal labels and specs.

    Projected volumes, environments and host names are left out: they differ from pod to pod.
    """
    spec = {name: value for name, value in pod.spec.items() if name != "hostname"}
    volumes = spec.get("volumes") or ()
    projected = {volume["name"] for volume in volumes if volume.get("projected") is not None}
    spec["volumes"] = [volume for volume in volumes if volume["name"] not in projected]
    for kind in ("containers", "initContainers"):
        spec[kind] = [_reduced(container, projected) for container in spec.get(kind) or ()]
    return json.dumps([pod.labels, spec], sort_keys=True)


def _reduced(container: Mapping[str, Any], projected: set[str]) -> dict[str, Any]:
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in projected]
    rest = {name: value for name, value in container.items() if name not in ("env", "volumeMounts")}
    return {**rest, "volumeMounts": mounts}


@dataclass(slots=True)
class Estimation:
    """New nodes, in order, and where pods went."""

    placed: dict[str, str] = field(default_factory=dict)  # pod uid → node
    pods: list[PodInfo] = field(default_factory=list)
    new: dict[str, bool] = field(default_factory=dict)  # node → whether it has any of the pods
    last: str = ""  # the newest node

    @property
    def nodes(self) -> list[str]:
        """New nodes without any of the pods are not needed."""
        return [name for name, used in self.new.items() if used]

    def place(self, pod: PodInfo, node: str) -> None:
        self.pods.append(pod)
        self.placed[pod.uid] = node
        if node in self.new:
            self.new[node] = True


class BinpackingNodeEstimator:
    def __init__(
        self, snapshot: ClusterSnapshot, fresh_name: Callable[[NodeTemplate, int], str], most: int
    ) -> None:
        """`fresh_name` names the n-th new node of a template; `most` is how many there may be."""
        self._snapshot = snapshot
        self._fresh_name = fresh_name
        self._most = most

    def estimate(self, groups: Groups, template: NodeTemplate) -> Estimation:
        """Places pods in the snapshot, which the caller has forked."""
        made = Estimation()
        more_nodes = True
        for group in in_order(groups, template):
            left = self._try_existing(made, group)
            if more_nodes:
                more_nodes = self._try_new(made, left, template)
        return made

    def _try_existing(self, made: Estimation, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Uses the new nodes that are there already; the result begins with the first pod that fits none."""
        for index, pod in enumerate(pods):
            node = self._snapshot.schedule_anywhere(pod, lambda node: node.name in made.new)
            if node is None:
                return pods[index:]
            made.place(pod, node)
        return ()

    def _try_new(self, made: Estimation, pods: Sequence[PodInfo], template: NodeTemplate) -> bool:
        """Places pods on the newest node, or on one more; False means that no more nodes may be added."""
        for pod in pods:
            if made.last and self._try_last(made, pod):
                continue
            if made.last and not made.new[made.last]:
                return True  # it does not fit an empty node: another one would not help
            if len(made.new) >= self._most:
                return False
            self._add_node(made, template)
            if not self._snapshot.schedule(pod, made.last).is_success:
                return True
            made.place(pod, made.last)
        return True

    def _try_last(self, made: Estimation, pod: PodInfo) -> bool:
        status = self._snapshot.schedule(pod, made.last)
        if status.is_success:
            made.place(pod, made.last)
            return True
        if not _spreads_over_hosts(pod) or not _is_spread(status):
            return False
        last = made.last

        def is_other(node: NodeInfo) -> bool:
            return node.name != last

        node = self._snapshot.schedule_anywhere(pod, is_other)
        if node is None:
            return False
        made.place(pod, node)
        return True

    def _add_node(self, made: Estimation, template: NodeTemplate) -> None:
        name = self._fresh_name(template, len(made.new))
        self._snapshot.add_node(template.fresh_node(name), template.fresh_pods(name))
        made.new[name] = False
        made.last = name


def in_order(groups: Groups, template: NodeTemplate) -> list[Sequence[PodInfo]]:
    """Groups whose first pods have the largest scores come first; equal ones keep their order."""
    return sorted(groups, key=lambda group: -score(group[0], template))


def score(pod: PodInfo, template: NodeTemplate) -> float:
    allocatable = amounts((template.node.get("status") or {}).get("allocatable"))
    return sum(
        pod.requests.get(name, 0) / allocatable[name]
        for name in ("cpu", "memory")
        if allocatable.get(name, 0) > 0
    )


def _spreads_over_hosts(pod: PodInfo) -> bool:
    constraints = pod.spec.get("topologySpreadConstraints") or ()
    return any(constraint.get("topologyKey") == HOSTNAME for constraint in constraints)


def _is_spread(status: Status) -> bool:
    return _SPREAD_REASON in status.reasons

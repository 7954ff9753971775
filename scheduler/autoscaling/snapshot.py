"""Holds a snapshot of the cluster in which pods are placed and evicted, and undone together, and makes
fictional nodes from templates.

PreFilter and Filter of the scheduler's profiles decide; plugins with resources of their own keep these in the
cycle state, as KEP-4381 drafted it. Nothing is written to any server.

Sources: cluster-autoscaler 1.35, simulator/node_info_utils.go, utils/taints (SanitizeTaints);
cluster-autoscaler 1.35, simulator/clustersnapshot (predicate/plugin_runner.go).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.framework.filters import Filters, NodeFilter
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.framework.simulation import NODE_RESOURCE_SLICES, UndoLog, slices_node
from kubeskew.scheduler.framework.status import Diagnosis, Status, unresolvable

HOSTNAME = "kubernetes.io/hostname"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"

_PASSING_TAINTS = frozenset(
    {
        TO_BE_DELETED,
        "DeletionCandidateOfClusterAutoscaler",
        "aws.amazon.com/NodeWithImpairedVolumes",
        "cloud.google.com/impending-node-termination",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
        *(
            f"node.kubernetes.io/{condition}"
            for condition in (
                "disk-pressure",
                "memory-pressure",
                "network-unavailable",
                "not-ready",
                "pid-pressure",
                "unreachable",
                "unschedulable",
            )
        ),
    }
)
_PASSING_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
)
Matches = Callable[[NodeInfo], bool]


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A kind of node that can be added; `pods` run on each from the start, as those of DaemonSets do.

    `slices_of` names the node whose published slices each of these nodes has, too.
    """

    name: str
    node: Object
    slices_of: str = ""
    pods: Sequence[Object] = ()

    def fresh_node(self, name: str) -> Object:
        """Taints of a passing state are left out; an annotation names the node whose slices are used."""
        metadata = self.node["metadata"]
        kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
        annotations = dict(kept.get("annotations") or {})
        origin = slices_node(self.node) or self.slices_of
        if origin:
            annotations[NODE_RESOURCE_SLICES] = origin
        spec = dict(self.node.get("spec") or {})
        if spec.get("taints"):
            spec["taints"] = [taint for taint in spec["taints"] if not _passes(taint)]
        return {
            **self.node,
            "metadata": {
                "name": name,
                "uid": name,
                "labels": {**(kept.get("labels") or {}), HOSTNAME: name},
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": spec,
        }

    def fresh_pods(self, node: str) -> list[PodInfo]:
        return [PodInfo(_on_node(pod, node)) for pod in self.pods]


def _passes(taint: Any) -> bool:
    """These taints report a state that a node leaves again, or are the autoscaler's own."""
    key = str(taint.get("key") or "")
    return key in _PASSING_TAINTS or key.startswith(_PASSING_PREFIXES)


def _on_node(pod: Object, node: str) -> Object:
    metadata = pod["metadata"]
    name = f"{metadata['name']}-{node}"
    fresh = {**metadata, "name": name, "uid": f"{metadata.get('namespace', '')}/{name}"}
    return {**pod, "metadata": fresh, "spec": {**pod["spec"], "nodeName": node}}


class SimulationError(Exception):
    """A plugin failed; the text is the plugin's."""


class ClusterSnapshot:
    """Nodes, their pods, and the resources of plugins. Methods raise SimulationError."""

    def __init__(
        self, profiles: Mapping[str, Profile], filters: Mapping[str, NodeFilter], cache: Cache
    ) -> None:
        """Begins the simulation; `profiles` and `filters` are by scheduler name, `cache` is theirs."""
        self.profiles = profiles
        self._filters = filters
        self._cache = cache
        self._changes = UndoLog()
        self._state = CycleState()
        self._last_index = 0
        for plugin in {plugin.name: plugin for p in profiles.values() for plugin in p.autoscaled}.values():
            _bound(plugin.start_simulation(self._state))
        self._forkable = [self._changes, *self._state.forkable()]

    # -- changes that can be undone

    def fork(self) -> None:
        for part in self._forkable:
            part.fork()

    def revert(self) -> None:
        for part in self._forkable:
            part.revert()

    def commit(self) -> None:
        for part in self._forkable:
            part.commit()

    # -- nodes

    def nodes(self) -> Sequence[NodeInfo]:
        return self._cache.nodes()

    def node(self, name: str) -> NodeInfo | None:
        return self._cache.node(name)

    def add_node(self, node: Object, pods: Sequence[PodInfo] = ()) -> None:
        name = node["metadata"]["name"]
        self._cache.set_node(node)
        self._changes.undo_by(lambda: self._cache.remove_node(name))
        for pod in pods:
            self._place(pod, name)

    def change_node(self, node: Object) -> None:
        known = self._cache.node(node["metadata"]["name"])
        before = None if known is None else known.node
        self._cache.set_node(node)
        if before is not None:
            self._changes.undo_by(lambda: self._cache.set_node(before))

    def remove_node(self, name: str) -> None:
        """The pods that ran on the node from the start go with it."""
        known = self._cache.node(name)
        if known is None or known.node is None:
            return
        node, pods = known.node, [*known.pods.values()]
        for pod in pods:
            self._cache.remove_pod(pod.uid)
        self._cache.remove_node(name)

        def undo() -> None:
            self._cache.set_node(node)
            for pod in pods:
                self._cache.assume(pod, name)

        self._changes.undo_by(undo)

    # -- pods

    def check(self, pod: PodInfo, node: str) -> Status:
        _, status = self._find(pod, lambda info: info.name == node, only=node)
        return status

    def schedule(self, pod: PodInfo, node: str) -> Status:
        """Places the pod on the node if it fits there; the status is that of the check."""
        found, status = self._find(pod, lambda info: info.name == node, only=node)
        if found is not None:
            self._bind(pod, found)
        return status

    def schedule_anywhere(self, pod: PodInfo, matches: Matches) -> str | None:
        """Places the pod on one of the nodes that match; None means that it fits none of them.

        The search begins behind the node that it found last.
        """
        found, _ = self._find(pod, matches)
        if found is None:
            return None
        self._bind(pod, found)
        return found.name

    def diagnose(self, pod: PodInfo) -> str:
        """Reasons in the scheduler's words, for all nodes together."""
        before, rejected = self.rejections(pod)
        nodes = len(self._cache.nodes())
        if before is not None:
            return Diagnosis(nodes, {}, pre_filter=before.message).message()
        return Diagnosis(nodes, rejected).message()

    def rejections(self, pod: PodInfo) -> tuple[Status | None, Mapping[str, Status]]:
        """Pairs the status of the plugin that refused the pod before Filter ran, if one did, with the
        filters' statuses by node otherwise."""
        nodes = self._cache.nodes()
        profile, attempt = self._profile(pod), self._state.attempt()
        result, limiting = profile.run_pre_filters(attempt, pod, nodes)
        if not result.status.is_success:
            return result.status, {}
        node_filter, filters = self._prepared(attempt, pod)
        rejected = {
            node.name: node_filter.run(filters, attempt, pod, node)
            for node in nodes
            if result.nodes is None or node.name in result.nodes
        }
        absent = _absent(limiting)
        return None, {node.name: rejected.get(node.name, absent) for node in nodes}

    def evict(self, pod: PodInfo, node: str) -> None:
        """Resources that the pod alone used become free."""
        self._cache.remove_pod(pod.uid)
        self._changes.undo_by(lambda: self._cache.assume(pod, node))
        for plugin in self._profile(pod).autoscaled:
            _bound(plugin.simulate_evict_pod(self._state, pod, node))

    # -- one attempt

    def _find(self, pod: PodInfo, matches: Matches, only: str = "") -> tuple[NodeInfo | None, Status]:
        """Pairs the first node that matches and fits with the last status; `only` limits the search to one
        node."""
        nodes = self._cache.nodes()
        attempt = self._state.attempt()
        result, limiting = self._profile(pod).run_pre_filters(attempt, pod, nodes)
        if not result.status.is_success:
            return None, result.status
        node_filter, filters = self._prepared(attempt, pod)
        status = _absent(limiting) if limiting else unresolvable("there is no such node")
        for index, node in self._in_turn(nodes, only):
            if (result.nodes is not None and node.name not in result.nodes) or not matches(node):
                continue
            status = node_filter.run(filters, attempt, pod, node)
            if status.is_success:
                self._last_index = index
                return node, status
        return None, status

    def _in_turn(self, nodes: Sequence[NodeInfo], only: str) -> Iterator[tuple[int, NodeInfo]]:
        """Each node comes with the place at which the next search begins after it."""
        if only:
            found = self._cache.node(only)
            if found is not None:
                yield self._last_index, found
            return
        for offset in range(len(nodes)):
            index = (self._last_index + offset) % len(nodes)
            if not nodes[index].unschedulable:
                yield index + 1, nodes[index]

    def _bind(self, pod: PodInfo, node: NodeInfo) -> None:
        for plugin in self._profile(pod).autoscaled:
            _bound(plugin.simulate_bind_pod(self._state, pod, node))
        self._place(pod, node.name)

    def _place(self, pod: PodInfo, node: str) -> None:
        self._cache.assume(pod, node)
        self._changes.undo_by(lambda: self._cache.forget(pod.uid))

    def _prepared(self, attempt: CycleState, pod: PodInfo) -> tuple[NodeFilter, Filters]:
        node_filter = self._filters[self._profile(pod).name]
        return node_filter, node_filter.prepare(attempt, pod)

    def _profile(self, pod: PodInfo) -> Profile:
        """The first profile stands in for schedulers that are not ours."""
        return self.profiles.get(pod.scheduler_name) or next(iter(self.profiles.values()))


def _absent(limiting: Sequence[str]) -> Status:
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(limiting)}]")


def _bound(status: Status) -> None:
    """Raises SimulationError if a pod cannot be placed although all filters let it."""
    if not status.is_success and not status.is_skip:
        raise SimulationError(status.message)

"""The nodes where a pod can go, and the best of them: PreFilter, Filter and Score over as many nodes as are
enough. It never waits.

Source: k8s.io/kubernetes/pkg/scheduler/schedule_one.go, numFeasibleNodesToFind, 1.36.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.features import PlacementFeatures
from kubeskew.scheduler.framework.filters import NodeFilter
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.framework.status import SUCCESS, Code, Diagnosis, Status

_ALL_UP_TO = 100  # nodes; in smaller clusters every node is checked
_MIN_PERCENT = 5
Observe = Callable[[str, Status, float], None]

NO_NODES = "no nodes available to schedule pods"


class NodeSampler:
    """Goes round the nodes, so that each gets its turn."""

    def __init__(self) -> None:
        self._start = 0
        self._length = 0

    @staticmethod
    def wanted(nodes: int, percent: int = 0) -> int:
        """Number of feasible nodes that end the search in a cluster of `nodes`; with 0 percent, the size of
        the cluster decides."""
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
        """The next search begins after these nodes."""
        if self._length:
            self._start = (self._start + number) % self._length


class NodeFinder:
    """Finds nodes; remembers from pod to pod where in the list of nodes it stopped."""

    def __init__(
        self,
        profile: Profile,
        node_filter: NodeFilter,
        cache: Cache,
        sampler: NodeSampler,
        entropy: Entropy,
        observe: Observe,
        clock: Clock,
        features: PlacementFeatures,
    ) -> None:
        """`observe` is called with the status of an extension point and its start (monotonic)."""
        self._profile = profile
        self._node_filter = node_filter
        self._cache = cache
        self._entropy = entropy
        self._observe = observe
        self._clock = clock
        self._sampler = sampler
        self._features = features

    def find(self, state: CycleState, pod: PodInfo) -> str | Status | Diagnosis:
        """A node's name; otherwise the status of a failure, or a diagnosis of why no node fits."""
        nodes = self._cache.nodes()
        if not nodes:
            return Diagnosis(0, pre_filter=NO_NODES)
        feasible = self._feasible(state, pod, nodes)
        if not isinstance(feasible, list):
            return feasible
        if len(feasible) == 1:
            return feasible[0].name
        began = self._clock.monotonic()
        status = self._profile.run_pre_scores(state, pod, feasible)
        self._observe("PreScore", status, began)
        if not status.is_success:
            return status
        began = self._clock.monotonic()
        scores = self._profile.run_scores(state, pod, feasible)
        if isinstance(scores, Status):
            self._observe("Score", scores, began)
            return scores
        self._observe("Score", SUCCESS, began)
        return self._best(scores)

    def _feasible(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> list[NodeInfo] | Status | Diagnosis:
        began = self._clock.monotonic()
        result, limiting = self._profile.run_pre_filters(state, pod, nodes)
        self._observe("PreFilter", result.status, began)
        if not result.status.is_success:
            if not result.status.is_rejected:
                return result.status
            return self._rejected_by_pre_filter(state, nodes, result.status)
        rejected: dict[str, Status] = {}
        candidates = nodes
        if result.nodes is not None:
            candidates = [node for node in nodes if node.name in result.nodes]
            absent = Status(
                Code.UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{' '.join(limiting)}]",), limiting[0]
            )
            rejected = {node.name: absent for node in nodes if node.name not in result.nodes}
        if promised := self._promised(state, pod, nodes):
            return promised
        if result.nodes is not None and (fault := self._absent(nodes, result.nodes)):
            return fault
        began = self._clock.monotonic()
        feasible = self._filter(state, pod, candidates, rejected)
        self._observe("Filter", _filtered(feasible), began)
        if isinstance(feasible, Status) or feasible:
            return feasible
        diagnosis = Diagnosis(len(nodes), rejected)
        diagnosis.plugins = {status.plugin for status in rejected.values()}
        diagnosis.pending = {status.plugin for status in rejected.values() if status.code is Code.PENDING}
        return diagnosis

    def _absent(self, nodes: Sequence[NodeInfo], wanted: frozenset[str]) -> Status | None:
        """Some releases look up every node that PreFilter names, and fail for one that is missing (issue
        123465)."""
        absent = sorted(wanted.difference(node.name for node in nodes))
        if absent and self._features.absent_node_fails:
            return Status(Code.ERROR, (f'nodeinfo not found for node name "{absent[0]}"',))
        return None

    def _promised(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """No other node is checked if the one to which the pod is nominated fits."""
        name = (pod.pod.get("status") or {}).get("nominatedNodeName")
        if not name:
            return []
        filters = self._node_filter.prepare(state, pod)
        return [
            node
            for node in nodes
            if node.name == name and self._node_filter.run(filters, state, pod, node).is_success
        ]

    def _rejected_by_pre_filter(
        self, state: CycleState, nodes: Sequence[NodeInfo], status: Status
    ) -> Diagnosis:
        state.stopped_at = status.plugin
        node_status = (
            Status(Code.UNSCHEDULABLE, status.reasons, status.plugin)
            if self._features.preempts_in_vain
            else status
        )
        diagnosis = Diagnosis(
            len(nodes), {node.name: node_status for node in nodes}, pre_filter=status.message
        )
        (diagnosis.pending if status.code is Code.PENDING else diagnosis.plugins).add(status.plugin)
        return diagnosis

    def _filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], rejected: dict[str, Status]
    ) -> list[NodeInfo] | Status:
        """Collects at most as many nodes that fit as are to be scored; notes in `rejected` why the others do
        not."""
        filters = self._node_filter.prepare(state, pod)
        fits = self._node_filter.run
        feasible: list[NodeInfo] = []
        seen = 0
        refused: dict[str, int] = {}
        wanted = self._sampler.wanted(len(nodes), self._profile.percentage_of_nodes_to_score or 0)
        if not self._profile.scores:
            wanted = 1
        now = self._node_filter.timed(filters) if state.recorded else filters
        for node in self._sampler.in_turn(nodes):
            seen += 1
            status = fits(now, state, pod, node)
            now = filters
            if status is SUCCESS:
                feasible.append(node)
                if len(feasible) >= wanted:
                    break
            elif status.is_rejected:
                rejected[node.name] = status
                refused[status.plugin] = refused.get(status.plugin, 0) + 1
            else:
                return status
        if not nodes and self._features.panics_without_candidates:
            # where the next search begins (issue 124930)
            raise Panic("runtime error: integer divide by zero")
        self._sampler.looked_at(seen)
        for name in filters.names:  # each checks only the nodes that those before it left
            self._profile.count_evaluations(name, "Filter", seen)
            seen -= refused.get(name, 0)
        return feasible

    def _best(self, scores: Mapping[str, int]) -> str:
        """Chance decides among several nodes with the highest score."""
        highest = max(scores.values())
        best = [name for name, score in scores.items() if score == highest]
        return best[int(self._entropy.random() * len(best))]


def _filtered(found: list[NodeInfo] | Status) -> Status:
    if isinstance(found, Status):
        return found
    return SUCCESS if found else Status(Code.UNSCHEDULABLE)

"""InterPodAffinity: keeps pods near others, or away from them; with its queueing hints, the events that may
help a pod that it rejected.

Sources: k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, 1.31 … 1.37;
k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity, 1.36.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubeskew.apimachinery.client.refs import NAMESPACES
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.selectors.labels import NOTHING
from kubeskew.scheduler.features import AffinityHintFeatures
from kubeskew.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    has_node,
    is_same_pod,
)
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import AffinityTerm, PodInfo, match_all
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle

Resolve = Callable[[Iterable[AffinityTerm]], Sequence[AffinityTerm]]
NamespaceLabels = Callable[[str], Mapping[str, str]]


def hints(
    resolve: Resolve, labels_of: NamespaceLabels, features: AffinityHintFeatures
) -> Sequence[EventHint]:
    """`resolve` turns namespace selectors into namespaces, `labels_of` returns a namespace's labels."""
    pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
    nodes = Action.ADD | Action.UPDATE_NODE_LABEL
    own = _never if features.overlooks_own_labels else is_same_pod
    return (
        EventHint(ClusterEvent(EventResource.ASSIGNED_POD, pods), _after_pod(resolve, labels_of, features)),
        EventHint(ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), own),
        EventHint(ClusterEvent(EventResource.NODE, nodes), _after_node(features)),
    )


def _never(_pod: Object, _old: Object | None, _new: Object | None) -> bool:
    return False


def _after_pod(resolve: Resolve, labels_of: NamespaceLabels, features: AffinityHintFeatures) -> Hint:
    some = all if features.all_anti_terms else any

    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        if features.overlooks_nominated and not has_node(old, new):
            return False
        waiting = PodInfo(pod)
        near, far = waiting.affinity.required, waiting.affinity.required_anti
        if not features.overlooks_selected_namespaces:
            near, far = resolve(near), resolve(far)
        before = PodInfo(old) if old is not None else None
        after = PodInfo(new) if new is not None and not is_terminal(new) else None

        def is_wanted(other: PodInfo | None) -> bool:
            return other is not None and match_all(near, other.namespace, other.labels)

        def is_avoided(other: PodInfo | None) -> bool:
            return other is not None and _about(some, far, other.namespace, other.labels, {})

        def avoids(other: PodInfo | None) -> bool:
            if other is None or features.overlooks_repelling:
                return False
            labels = labels_of(waiting.namespace)
            return _about(some, other.affinity.required_anti, waiting.namespace, waiting.labels, labels)

        if is_wanted(after) and not is_wanted(before):
            return True
        if before is None:
            return False
        return (is_avoided(before) and not is_avoided(after)) or (avoids(before) and after is None)

    return hint


def _about(
    some: Callable[[Iterable[bool]], bool],
    terms: Sequence[AffinityTerm],
    namespace: str,
    labels: Mapping[str, str],
    of_namespace: Mapping[str, str],
) -> bool:
    """There must be a term at all, and `some` (any or all) of them must match the pod."""
    return bool(terms) and some(term.matches(namespace, labels, of_namespace) for term in terms)


def _after_node(features: AffinityHintFeatures) -> Hint:
    """A node helps if it is, or becomes, one of a domain that a term asks for, or leaves one to avoid."""

    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None:
            return False
        affinity = PodInfo(pod).affinity
        near = [term.topology_key for term in affinity.required]
        far = [term.topology_key for term in affinity.required_anti]
        labels = new["metadata"].get("labels") or {}
        if not features.by_changed_labels:
            return any(key in labels for key in (*near, *far))
        if old is None:
            return bool(far) or any(key in labels for key in near)
        before = old["metadata"].get("labels") or {}
        return any(key in labels and labels[key] != before.get(key) for key in near) or any(
            key in before and labels.get(key) != before[key] for key in far
        )

    return hint


NAME = "InterPodAffinity"

_NOT_NEAR = unresolvable("node(s) didn't match pod affinity rules")
_TOO_NEAR = unschedulable("node(s) didn't match pod anti-affinity rules")
_UNWANTED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
_SCORES = f"{NAME}/scores"

_Counts = Counter[tuple[str, str]]  # by topology key and value
_Labels = Mapping[str, str]


@dataclass(slots=True)
class _Filtering:
    """Counts how often the pods of a topology domain match terms of the pod, or are matched by their own."""

    near: Sequence[AffinityTerm]
    far: Sequence[AffinityTerm]
    namespace_labels: _Labels
    matched: _Counts
    avoided: _Counts
    unwanted: _Counts

    def clone(self) -> "_Filtering":
        return replace(
            self, matched=self.matched.copy(), avoided=self.avoided.copy(), unwanted=self.unwanted.copy()
        )

    def count(self, pod: PodInfo, other: PodInfo, labels: _Labels, change: int) -> None:
        """`change` is 1 or -1, for a pod that comes or goes on a node with these labels."""
        self.count_unwanted(pod, other, labels, change)
        if self.near and match_all(self.near, other.namespace, other.labels):
            for term in self.near:
                _add(self.matched, term, labels, change)
        for term in self.far:
            if term.matches(other.namespace, other.labels, {}):
                _add(self.avoided, term, labels, change)

    def count_unwanted(self, pod: PodInfo, other: PodInfo, labels: _Labels, change: int) -> None:
        """Counts `other` like `count`, by its own required anti-affinity."""
        for term in other.affinity.required_anti:
            if term.matches(pod.namespace, pod.labels, self.namespace_labels):
                _add(self.unwanted, term, labels, change)


def _count_own(own: _Filtering, nodes: Sequence[NodeInfo]) -> None:
    """Counts how the pods of all nodes match the pod's own terms; nodes keep that until they change."""
    near = (NAME, "all", *(term.key for term in own.near))
    far = [(NAME, term.key) for term in own.far]
    for node in nodes:
        memo = node.memo
        if own.near:
            number = memo.get(near)
            if number is None:
                number = sum(
                    match_all(own.near, other.namespace, other.labels) for other in node.pods.values()
                )
                memo[near] = number
            if number:
                for term in own.near:
                    _add(own.matched, term, node.labels, number)
        for key, term in zip(far, own.far, strict=True):
            number = memo.get(key)
            if number is None:
                number = sum(term.matches(other.namespace, other.labels, {}) for other in node.pods.values())
                memo[key] = number
            if number:
                _add(own.avoided, term, node.labels, number)


def _add(counts: _Counts, term: AffinityTerm, labels: _Labels, change: int) -> None:
    value = labels.get(term.topology_key)
    if value is None:
        return
    pair = (term.topology_key, value)
    counts[pair] += change
    if not counts[pair]:
        del counts[pair]


class InterPodAffinity:
    name = NAME

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        """`args` are InterPodAffinityArgs."""
        self._cache = handle.cache
        self._namespaces = handle.informer(NAMESPACES)
        self._hints = handle.features.affinity_hints
        self._hard_weight: int = args.get("hardPodAffinityWeight", 1)
        self._ignores_preferred_of_others = bool(args.get("ignorePreferredTermsOfExistingPods"))

    def events_to_register(self) -> Sequence[EventHint]:
        return hints(self._resolved, self._labels_of, self._hints)

    # -- namespaces

    def _resolved(self, terms: Iterable[AffinityTerm]) -> Sequence[AffinityTerm]:
        return [self._with_namespaces(term) for term in terms]

    def _with_namespaces(self, term: AffinityTerm) -> AffinityTerm:
        selector = term.namespace_selector
        if selector.is_empty() or not selector.selectable:
            return term  # all, or none
        selected = {
            namespace["metadata"]["name"]
            for namespace in self._namespaces.list()
            if selector.matches(namespace["metadata"].get("labels"))
        }
        return replace(term, namespaces=term.namespaces | selected, namespace_selector=NOTHING)

    def _labels_of(self, namespace: str) -> _Labels:
        found = self._namespaces.get("", namespace)
        return (found["metadata"].get("labels") or {}) if found is not None else {}

    # -- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        affinity = pod.affinity
        others = self._cache.affine_nodes()
        if not others and not affinity.required and not affinity.required_anti:
            return PreFilterResult(SKIP)
        own = _Filtering(
            self._resolved(affinity.required),
            self._resolved(affinity.required_anti),
            self._labels_of(pod.namespace),
            Counter(),
            Counter(),
            Counter(),
        )
        for node in others:
            for other in node.repelling.values():
                own.count_unwanted(pod, other, node.labels, 1)
        if own.near or own.far:
            _count_own(own, nodes)
        elif not own.unwanted:
            return PreFilterResult(SKIP)
        state.write(NAME, own)
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        state.read(NAME).count(pod, other, node.labels, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        state.read(NAME).count(pod, other, node.labels, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: _Filtering = state.read(NAME)
        labels = node.labels
        if not _is_near(own, pod, labels):
            return _NOT_NEAR
        if own.avoided and any(
            own.avoided.get((term.topology_key, labels.get(term.topology_key, "")), 0) > 0 for term in own.far
        ):
            return _TOO_NEAR
        if own.unwanted and any(own.unwanted.get(pair, 0) > 0 for pair in labels.items()):
            return _UNWANTED
        return SUCCESS

    # -- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        prefers = bool(pod.affinity.preferred or pod.affinity.preferred_anti)
        if self._ignores_preferred_of_others and not prefers:
            return SKIP
        found: Iterable[NodeInfo] = self._cache.nodes() if prefers else self._cache.affine_nodes()
        if not found:
            return SKIP
        near = self._resolved(pod.affinity.preferred)
        far = self._resolved(pod.affinity.preferred_anti)
        namespace_labels = self._labels_of(pod.namespace)
        scores: _Counts = Counter()
        for node in found:
            for other in (node.pods if prefers else node.affine).values():
                _score_terms(scores, near, other, {}, node.labels, 1)
                _score_terms(scores, far, other, {}, node.labels, -1)
                self._score_others(scores, pod, other, namespace_labels, node.labels)
        if not scores:
            return SKIP
        state.write(_SCORES, scores)
        return SUCCESS

    def _score_others(
        self, scores: _Counts, pod: PodInfo, other: PodInfo, namespace_labels: _Labels, labels: _Labels
    ) -> None:
        wants = other.affinity
        if not wants.some:
            return
        if self._hard_weight > 0:
            for term in wants.required:
                if term.matches(pod.namespace, pod.labels, namespace_labels):
                    _add(scores, term, labels, self._hard_weight)
        _score_terms(scores, wants.preferred, pod, namespace_labels, labels, 1)
        _score_terms(scores, wants.preferred_anti, pod, namespace_labels, labels, -1)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        scores: _Counts = state.read(_SCORES)
        return sum(scores.get(pair, 0) for pair in node.labels.items())

    def normalize(self, scores: dict[str, int]) -> None:
        worst, best = min(scores.values(), default=0), max(scores.values(), default=0)
        for name, score in scores.items():
            scores[name] = int(MAX_NODE_SCORE * ((score - worst) / (best - worst))) if best > worst else 0


def _is_near(own: _Filtering, pod: PodInfo, labels: _Labels) -> bool:
    """Every required term is matched at the node, or the pod is the first that it matches itself."""
    exist = True
    for term in own.near:
        value = labels.get(term.topology_key)
        if value is None:
            return False
        exist = exist and own.matched.get((term.topology_key, value), 0) > 0
    return exist or (not own.matched and match_all(own.near, pod.namespace, pod.labels))


def _score_terms(
    scores: _Counts,
    terms: Iterable[AffinityTerm],
    pod: PodInfo,
    namespace_labels: _Labels,
    labels: _Labels,
    sign: int,
) -> None:
    for term in terms:
        if term.weight and term.matches(pod.namespace, pod.labels, namespace_labels):
            _add(scores, term, labels, sign * term.weight)

"""PodTopologySpread: spreads pods that belong together evenly over zones, nodes, or other domains.
Constraints are parsed here, with the defaults and the nodes that they concern.

Sources: k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread/common.go and plugin.go, 1.36;
k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread, 1.36.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.client.refs import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS
from kubeskew.apimachinery.objects import Object, ObjectView, controller_of
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.selectors import nodes
from kubeskew.apimachinery.selectors.labels import (
    LabelSelector,
    Requirement,
    selector_or_nothing,
)
from kubeskew.apimachinery.selectors.nodes import untolerated
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, has_node
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS: Sequence[ObjectView] = (
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT, "maxSkew": 3},
    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": SOFT, "maxSkew": 5},
)


@dataclass(frozen=True, slots=True)
class Constraint:
    topology_key: str
    max_skew: int
    selector: LabelSelector
    key: str  # key of the counts that nodes keep
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def is_about(self, pod: PodInfo, node: NodeInfo) -> bool:
        """`nodeAffinityPolicy` and `nodeTaintsPolicy` may leave the node's pods out for the pod."""
        if self.honors_affinity and not nodes.fits(pod.spec, node.labels, node.name):
            return False
        tolerations = pod.spec.get("tolerations") or ()
        return not self.honors_taints or untolerated(node.taints, tolerations) is None

    def takes_all_nodes(self, pod: PodInfo) -> bool:
        spec = pod.spec
        restricted = spec.get("nodeSelector") or nodes.required(spec) is not None
        return not self.honors_taints and not (self.honors_affinity and restricted)

    def counter(self, namespace: str) -> Callable[[NodeInfo], int]:
        """The function counts the selected pods of the namespace on a node, without terminating ones."""
        key = (self.key, namespace)

        def count(node: NodeInfo) -> int:
            known: int | None = node.memo.get(key)
            if known is None:
                known = node.memo[key] = self._count(namespace, node)
            return known

        return count

    def _count(self, namespace: str, node: NodeInfo) -> int:
        if self.selector.is_empty():
            return 0
        return sum(
            1
            for pod in node.pods.values()
            if pod.namespace == namespace
            and not pod.pod["metadata"].get("deletionTimestamp")
            and self.selector.matches(pod.labels)
        )


def has_all_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


class Constraints:
    """Finds a pod's constraints: its own, or the default ones if it has none."""

    def __init__(self, handle: Handle, args: ObjectView) -> None:
        """`args` are PodTopologySpreadArgs."""
        self._features: SchedulerFeatures = handle.features
        self.system_defaulted = (args.get("defaultingType") or "System") == "System"
        self._defaults = SYSTEM_DEFAULTS if self.system_defaulted else args.get("defaultConstraints") or ()
        self._services = handle.informer(SERVICES)
        self._controllers = {
            ref.kind: handle.informer(ref) for ref in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
        }

    def of(self, pod: PodInfo, action: str) -> Sequence[Constraint]:
        """`action` is the `whenUnsatisfiable` of the constraints wanted."""
        own = pod.spec.get("topologySpreadConstraints")
        if own:
            return [self._own(pod, entry) for entry in own if entry["whenUnsatisfiable"] == action]
        defaults = [entry for entry in self._defaults if entry["whenUnsatisfiable"] == action]
        if not defaults:
            return ()
        selector = self.default_selector(pod)
        if selector.is_empty():
            return ()
        return [self._made(entry, selector) for entry in defaults]

    def _own(self, pod: PodInfo, constraint: ObjectView) -> Constraint:
        selector = selector_or_nothing(constraint.get("labelSelector"))
        if self._features.match_label_keys and constraint.get("matchLabelKeys"):
            same = {key: pod.labels[key] for key in constraint["matchLabelKeys"] if key in pod.labels}
            if same and selector.selectable:
                more = LabelSelector.from_labels(same)
                selector = LabelSelector((*selector.requirements, *more.requirements))
        return self._made(constraint, selector)

    def _made(self, constraint: ObjectView, selector: LabelSelector) -> Constraint:
        features = self._features
        policies = features.node_inclusion_policy
        return Constraint(
            constraint["topologyKey"],
            constraint["maxSkew"],
            selector,
            str(selector) if selector.selectable else "nothing!",
            (constraint.get("minDomains") or 1) if features.min_domains else 1,
            not policies or (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            policies and constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def default_selector(self, pod: PodInfo) -> LabelSelector:
        """Selects the pod's siblings: those of its services and its controller."""
        same: dict[str, str] = {}
        for service in self._services.list(pod.namespace):
            selector = (service.get("spec") or {}).get("selector")
            if selector and all(pod.labels.get(key) == value for key, value in selector.items()):
                same |= selector
        owner = controller_of(pod.pod)
        informer = self._controllers.get(owner["kind"]) if owner is not None else None
        found = informer.get(pod.namespace, owner["name"]) if informer is not None and owner else None
        more: tuple[Requirement, ...] = ()
        if found is not None and owner is not None and _is(found, owner):
            selector = (found.get("spec") or {}).get("selector") or {}
            if owner["kind"] == REPLICATION_CONTROLLERS.kind:
                same |= selector
            else:
                more = LabelSelector.from_object(selector).requirements
        return LabelSelector((*LabelSelector.from_labels(same).requirements, *more))


def _is(found: ObjectView, owner: ObjectView) -> bool:
    return bool(found["metadata"].get("uid") == owner.get("uid"))


NAME = "PodTopologySpread"

_SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
_LABEL_MISSING = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
_SCORING = f"{NAME}/score"


@dataclass(slots=True)
class _Domains:
    """One constraint, how many selected pods each of its domains has, and whether the pod is selected too."""

    constraint: Constraint
    itself: int
    counts: dict[str, int] = field(default_factory=dict)
    _fewest: int | None = None

    def fewest(self) -> int:
        """Smallest count; 0 if there are fewer domains than wanted; without any, no limit."""
        if self._fewest is None:
            if not self.counts:
                return 2**31 - 1
            few = len(self.counts) < self.constraint.min_domains
            self._fewest = 0 if few else min(self.counts.values())
        return self._fewest

    def add(self, value: str, number: int) -> None:
        self.counts[value] = self.counts.get(value, 0) + number
        self._fewest = None


@dataclass(slots=True)
class _Filtering:
    domains: list[_Domains]

    def clone(self) -> "_Filtering":
        return _Filtering(
            [_Domains(domain.constraint, domain.itself, {**domain.counts}) for domain in self.domains]
        )


@dataclass(slots=True)
class _Scoring:
    # Per constraint: its key, counts by the key's value, weight (the more domains, the more a pod counts),
    # what counts on a host, and the skew allowed.
    parts: list[tuple[str, dict[str, int], float, Callable[[NodeInfo], int], int]]
    ignored: set[str]  # nodes that lack a key


class PodTopologySpread:
    name = NAME

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        """`args` are PodTopologySpreadArgs."""
        self._cache = handle.cache
        self._constraints = Constraints(handle, args)
        self._overlooks_nominated = handle.features.affinity_hints.overlooks_nominated

    def events_to_register(self) -> Sequence[EventHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        own = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL)
        return (
            EventHint(ClusterEvent(EventResource.ASSIGNED_POD, pods), self._after_pod),
            EventHint(own, self._after_own_change),
            EventHint(ClusterEvent(EventResource.NODE, nodes), self._after_node),
        )

    # -- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        constraints = self._constraints.of(pod, HARD)
        if not constraints:
            return PreFilterResult(SKIP)
        domains = [
            _Domains(constraint, int(constraint.selector.matches(pod.labels))) for constraint in constraints
        ]
        counted = [
            (domain, domain.constraint.counter(pod.namespace), domain.constraint.takes_all_nodes(pod))
            for domain in domains
        ]
        for node in nodes:
            if not has_all_keys(node.labels, constraints):
                continue
            for domain, count, takes_all in counted:
                if takes_all or domain.constraint.is_about(pod, node):
                    number = count(node)
                    value = node.labels[domain.constraint.topology_key]
                    domain.counts[value] = domain.counts.get(value, 0) + number
        state.write(NAME, _Filtering(domains))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        _count(state.read(NAME).domains, pod, other, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        _count(state.read(NAME).domains, pod, other, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: _Filtering = state.read(NAME)
        for domain in own.domains:
            value = node.labels.get(domain.constraint.topology_key)
            if value is None:
                return _LABEL_MISSING
            if domain.counts.get(value, 0) + domain.itself - domain.fewest() > domain.constraint.max_skew:
                return _SKEWED
        return SUCCESS

    # -- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        constraints = self._constraints.of(pod, SOFT)
        if not constraints:
            return SKIP
        # The system's defaults are meant for clusters whose nodes may lack zones.
        strict = bool(pod.spec.get("topologySpreadConstraints")) or not self._constraints.system_defaulted
        counts: list[dict[str, int]] = [{} for _ in constraints]
        ignored: set[str] = set()
        for node in nodes:
            if strict and not has_all_keys(node.labels, constraints):
                ignored.add(node.name)
                continue
            for constraint, values in zip(constraints, counts, strict=True):
                if constraint.topology_key != HOSTNAME:  # Score counts pods per host
                    values.setdefault(node.labels.get(constraint.topology_key, ""), 0)
        weights = [
            math.log((len(nodes) - len(ignored) if constraint.topology_key == HOSTNAME else len(values)) + 2)
            for constraint, values in zip(constraints, counts, strict=True)
        ]
        self._fill(pod, constraints, counts, strict=strict)
        parts = [
            (constraint.topology_key, values, weight, constraint.counter(pod.namespace), constraint.max_skew)
            for constraint, values, weight in zip(constraints, counts, weights, strict=True)
        ]
        state.write(_SCORING, _Scoring(parts, ignored))
        return SUCCESS

    def _fill(
        self, pod: PodInfo, constraints: Sequence[Constraint], counts: list[dict[str, int]], *, strict: bool
    ) -> None:
        """Counts the selected pods of all nodes, in the domains of the nodes that fit."""
        wanted = [
            (
                constraint,
                constraint.topology_key,
                values,
                constraint.counter(pod.namespace),
                constraint.takes_all_nodes(pod),
            )
            for constraint, values in zip(constraints, counts, strict=True)
            if values
        ]
        if not wanted:
            return
        for node in self._cache.nodes():
            if strict and not has_all_keys(node.labels, constraints):
                continue
            for constraint, key, values, count, takes_all in wanted:
                value = node.labels.get(key, "")
                if value in values and (takes_all or constraint.is_about(pod, node)):
                    values[value] += count(node)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        own: _Scoring = state.read(_SCORING)
        if node.name in own.ignored:
            return 0
        score = 0.0
        for key, values, weight, count, skew in own.parts:
            value = node.labels.get(key)
            if value is not None:
                number = count(node) if key == HOSTNAME else values[value]
                score += number * weight + (skew - 1)
        return math.floor(score + 0.5)

    def normalize_with(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> None:
        ignored = state.read(_SCORING).ignored
        valid = [score for name, score in scores.items() if name not in ignored]
        fewest, most = min(valid, default=0), max(valid, default=0)
        for name, score in scores.items():
            if name in ignored:
                scores[name] = 0
            elif most == 0:
                scores[name] = MAX_NODE_SCORE
            else:
                scores[name] = MAX_NODE_SCORE * (most + fewest - score) // most

    # -- events

    def _after_pod(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """A change helps if it makes a pod selected, or no longer selected."""
        if self._overlooks_nominated and not has_node(old, new):
            return False
        changed = new or old
        if changed is None or changed["metadata"].get("namespace") != pod["metadata"].get("namespace"):
            return False
        constraints = self._constraints.of(PodInfo(pod), HARD)

        def is_selected(other: Object | None) -> bool:
            labels = ((other or {}).get("metadata") or {}).get("labels") or {}
            return other is not None and any(
                constraint.selector.matches(labels) for constraint in constraints
            )

        gone = new is not None and is_terminal(new)
        return is_selected(old) != is_selected(None if gone else new)

    def _after_own_change(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """A change helps if the pod's own labels are selected otherwise than before."""
        if new is None or new["metadata"].get("uid") != pod["metadata"].get("uid"):
            return False
        was, now = PodInfo(old or pod), PodInfo(new)
        return any(
            constraint.selector.matches(was.labels) != constraint.selector.matches(now.labels)
            for constraint in self._constraints.of(now, HARD)
        )

    def _after_node(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """A change helps if the node has all the keys, with other values than before or newly so."""
        constraints = self._constraints.of(PodInfo(pod), HARD)
        was, now = _labels(old), _labels(new)
        had, has = has_all_keys(was, constraints), has_all_keys(now, constraints)
        if old is None or new is None:
            return has if new is not None else had
        if had != has:
            return True
        return has and (
            any(was[constraint.topology_key] != now[constraint.topology_key] for constraint in constraints)
            or any(constraint.honors_taints for constraint in constraints)
            or any(constraint.honors_affinity for constraint in constraints)
        )


def _labels(node: Object | None) -> Mapping[str, str]:
    return (node["metadata"].get("labels") or {}) if node is not None else {}


def _count(domains: Sequence[_Domains], pod: PodInfo, other: PodInfo, node: NodeInfo, change: int) -> None:
    if other.namespace != pod.namespace:
        return
    if not has_all_keys(node.labels, [domain.constraint for domain in domains]):
        return
    for domain in domains:
        if domain.constraint.selector.matches(other.labels) and domain.constraint.is_about(pod, node):
            domain.add(node.labels[domain.constraint.topology_key], change)

"""PodTopologySpread: spreads pods that belong together evenly over zones, nodes, or other domains.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread, 1.36.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, has_node
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.podtopologyspread.constraints import (
    HARD,
    HOSTNAME,
    SOFT,
    Constraint,
    Constraints,
    has_all_keys,
)

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
        """Returns the smallest count; 0 if there are fewer domains than wanted; without any, no limit."""
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
        """Returns the number of pods in the node's domains; less is better."""
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
        """Returns whether a pod came to be selected, or no longer is."""
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

        gone = new is not None and (new.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return is_selected(old) != is_selected(None if gone else new)

    def _after_own_change(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """Returns whether the pod itself is selected otherwise than before."""
        if new is None or new["metadata"].get("uid") != pod["metadata"].get("uid"):
            return False
        was, now = PodInfo(old or pod), PodInfo(new)
        return any(
            constraint.selector.matches(was.labels) != constraint.selector.matches(now.labels)
            for constraint in self._constraints.of(now, HARD)
        )

    def _after_node(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """Returns whether the node has all the keys, with other values than before or newly so."""
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

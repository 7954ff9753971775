"""NodeAffinity: node selector, required and preferred node affinity."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import (
    fits,
    node_affinity_of,
    required,
    selector_matches,
    term_matches,
)
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.node_selector_errors import preference_fault
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"

_REJECTED = unresolvable(REASON)
_REJECTED_BY_PROFILE = unresolvable("node(s) didn't match scheduler-enforced node affinity")


class NodeAffinity:
    name = NAME

    def __init__(self, added: Mapping[str, Any] | None = None) -> None:
        """`added` is a NodeAffinity that holds for every pod of the profile, in addition to its own."""
        self._required = (added or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        self._added = (added or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()

    def events_to_register(self) -> Sequence[EventHint]:
        event = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventHint(event, None if self._required else _node_matches),)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        if not pod.spec.get("nodeSelector") and required(pod.spec) is None and self._required is None:
            return PreFilterResult(SKIP)
        return PreFilterResult(nodes=named_nodes(pod.spec))

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        return orjson.dumps((pod.spec.get("nodeSelector"), required(pod.spec)))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        if self._required is not None and not selector_matches(self._required, node.labels, node.name):
            return _REJECTED_BY_PROFILE
        return SUCCESS if fits(pod.spec, node.labels, node.name) else _REJECTED

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        if fault := preference_fault(_preferred(pod.spec)):
            return failed(fault)
        return SUCCESS if self._added or _preferred(pod.spec) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return sum(
            term["weight"]
            for term in (*self._added, *_preferred(pod.spec))
            if term_matches(term.get("preference") or {}, node.labels, node.name)
        )

    def normalize(self, scores: dict[str, int]) -> None:
        best = max(scores.values(), default=0)
        for name, weight in scores.items():
            scores[name] = weight * MAX_NODE_SCORE // best if best else 0


def _preferred(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return node_affinity_of(spec).get("preferredDuringSchedulingIgnoredDuringExecution") or ()


def named_nodes(spec: Mapping[str, Any]) -> frozenset[str] | None:
    """Pods of daemon sets name their node in each required term; None if a term names none."""
    names: set[str] = set()
    for term in (required(spec) or {}).get("nodeSelectorTerms") or ():
        sets = [
            set(field.get("values") or ())
            for field in term.get("matchFields") or ()
            if field["key"] == "metadata.name" and field["operator"] == "In"
        ]
        if not sets:
            return None
        names |= set.intersection(*sets)
    return frozenset(names) if names else None


def _node_matches(pod: Object, old: Object | None, new: Object | None) -> bool:
    """A change helps if the node matches with its new labels, and did not with the old ones."""
    if new is None:
        return False
    metadata = new["metadata"]
    was = old is not None and fits(pod["spec"], old["metadata"].get("labels") or {}, metadata["name"])
    return not was and fits(pod["spec"], metadata.get("labels") or {}, metadata["name"])

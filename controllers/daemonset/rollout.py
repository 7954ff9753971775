"""Chooses the pods of a daemon set to delete, and the nodes that get a new one. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/daemon/{daemon_controller,update}.go, 1.36.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.daemonset.placement import is_updated, template_generation
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.history import REVISION_LABEL
from kubeskew.controllers.framework.percentages import scaled


@dataclass(slots=True)
class Plan:
    """The changes to make: nodes that get a pod, and pods to delete."""

    nodes: list[str] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)


def by_age(found: Iterable[Object]) -> list[Object]:
    """Returns the pods in the order in which they are kept: bound ones first, then the oldest."""
    return sorted(
        found,
        key=lambda pod: (
            not pod["spec"].get("nodeName"),
            pod["metadata"].get("creationTimestamp") or "",
            pod["metadata"]["name"],
        ),
    )


def _rolling(daemon_set: Object) -> Object | None:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return None
    rolling: Object = strategy.get("rollingUpdate") or {}
    return rolling


def allows_surge(daemon_set: Object) -> bool:
    rolling = _rolling(daemon_set)
    return rolling is not None and scaled(rolling.get("maxSurge"), 100, round_up=True) > 0


def limits(daemon_set: Object, desired: int) -> tuple[int, int]:
    """Returns (max surge, max unavailable) for so many nodes; at least one of them is not 0."""
    rolling = _rolling(daemon_set) or {}
    surge = scaled(rolling.get("maxSurge"), desired, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 1), desired, round_up=True)
    if desired and not surge and not unavailable:
        unavailable = 1
    return surge, unavailable


class PodClassifier:
    """Classifies a daemon set's pods at one moment."""

    def __init__(self, daemon_set: Object, text: str, now: datetime) -> None:
        self.daemon_set = daemon_set
        self._hash = text
        self._generation = template_generation(daemon_set)
        self._wait = daemon_set["spec"].get("minReadySeconds") or 0
        self._now = now

    def is_available(self, pod: Object) -> bool:
        return pods.available_in(pod, self._wait, self._now) == 0

    def is_updated(self, pod: Object) -> bool:
        return is_updated(pod, self._hash, self._generation)

    def pair(self, found: Sequence[Object]) -> tuple[Object | None, Object | None] | None:
        """Returns (new pod, old pod) of a node; None if there are more, which the next sync deletes."""
        new = old = None
        for pod in found:
            if pods.is_terminating(pod):
                continue
            if self.is_updated(pod):
                if new is not None:
                    return None
                new = pod
            else:
                if old is not None:
                    return None
                old = pod
        return new, old

    # -- too many on one node

    def excess(self, running: Sequence[Object]) -> list[Object]:
        """Returns the pods to delete if several run on a node."""
        if len(running) <= 1:
            return []
        if not allows_surge(self.daemon_set):
            return by_age(running)[1:]
        kept: dict[bool, Object] = {}
        gone = []
        for pod in by_age(running):
            is_new = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == self._hash
            if is_new in kept:
                gone.append(pod)
            kept.setdefault(is_new, pod)
        if len(kept) == 2 and (not pods.is_ready(kept[False]) or self.is_available(kept[True])):
            gone.append(kept[False])
        return gone

    # -- rolling update

    def replace(
        self,
        on_nodes: Mapping[str, Sequence[Object]],
        max_unavailable: int,
        *,
        forgives_old: bool = False,
    ) -> Plan:
        """Plans to delete old pods, those that are not available first: at most so many nodes are without an
        available pod, or so many more if that `forgives_old` ones."""
        unavailable, broken, candidates = 0, [], []
        for found in on_nodes.values():
            pair = self.pair(found)
            if pair is None or (pair[0] is None) == (pair[1] is None):
                unavailable += 1
                continue
            new, old = pair
            if new is not None:
                unavailable += not self.is_available(new)
            elif old is not None and not self.is_available(old):
                unavailable += not forgives_old
                broken.append(old)
            elif old is not None:
                candidates.append(old)
        return Plan(pods=[*broken, *candidates[: max(0, max_unavailable - unavailable)]])

    def surge(
        self,
        on_nodes: Mapping[str, Sequence[Object]],
        max_surge: int,
        starts: Callable[[str], bool],
        desired: int,
    ) -> Plan:
        """Plans a new pod beside the old one, which is deleted when the new one is available.

        `starts` says whether a node should have a pod. Where none should be, the old one is deleted only when
        enough of the `desired` others are available.
        """
        surging, available, plan = 0, 0, Plan()
        candidates: list[str] = []
        misplaced: list[Object] = []
        for node, found in on_nodes.items():
            pair = self.pair(found)
            if pair is None:
                surging += 1
                continue
            new, old = pair
            counted = old or new
            available += counted is not None and self.is_available(counted)
            if old is None:
                continue
            if new is None:
                self._take_over(plan, candidates, misplaced, node, old, starts=starts(node))
            elif self.is_available(new):
                plan.pods.append(old)
            else:
                surging += 1
        plan.pods += misplaced[: max(0, available - desired)]
        plan.nodes += candidates[: max(0, max_surge - surging)]
        return plan

    def _take_over(
        self,
        plan: Plan,
        candidates: list[str],
        misplaced: list[Object],
        node: str,
        old: Object,
        *,
        starts: bool,
    ) -> None:
        """Decides about a node that has only an old pod."""
        if self.is_available(old):
            if starts:
                candidates.append(node)
            else:
                misplaced.append(old)
        elif starts:
            plan.nodes.append(node)
        else:
            plan.pods.append(old)

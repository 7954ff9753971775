"""Preemption: the victims on each node, the node where it costs least, and the eviction of the victims by a
condition, a graceful deletion and an event.

Sources: k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption, SelectVictimsOnNode, 1.36;
k8s.io/kubernetes/pkg/scheduler/framework/preemption/preemption.go, 1.36;
k8s.io/kubernetes/pkg/scheduler/framework/preemption/executor.go, 1.36.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.conditions import find_condition, transition_time
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import selector_or_nothing
from kubeskew.scheduler.framework.filters import Filters, NodeFilter
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status, failed, unresolvable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.pod_status import patch_pod_status

_NOT_STARTED = "~"  # counts as starting now: later than any time

_NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
MIN_PERCENT, MIN_ABSOLUTE = 10, 100  # DefaultPreemptionArgs: nodes that are tried

_PRIORITY_OFFSET = 2**31  # so that a sum of priorities grows with their number
log = logging.getLogger(__name__)

_CONDITION, _REASON = "DisruptionTarget", "PreemptionByScheduler"
FAILURES = (StatusError, *CONNECTION_ERRORS)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that fits without these pods, the most important first."""

    node: str
    victims: Sequence[PodInfo]
    violations: int  # victims whose disruption budget is exhausted


def start_time(pod: PodInfo) -> str:
    """Timestamps compare as text; a pod that was not started is later than all others."""
    return (pod.pod.get("status") or {}).get("startTime") or _NOT_STARTED


def importance(pod: PodInfo) -> tuple[int, str]:
    """Sorts the more important pods first: those of higher priority, then those that run longer."""
    return -pod.priority, start_time(pod)


def select(
    node_filter: NodeFilter,
    filters: Filters,
    state: CycleState,
    pod: PodInfo,
    node: NodeInfo,
    budgets: Sequence[Object],
    *,
    unsorted: bool = False,
    forgets_empty: bool,
) -> Candidate | Status:
    """Finds the fewest, least important pods to remove from `node`, a clone (as `state` is), or the status
    that removing does not help.

    `unsorted`: those that violate a budget come first (before pull request 128307). `forgets_empty` as
    `by_budget` has it.
    """
    potential = [other for other in node.pods.values() if other.priority < pod.priority]
    if potential and state.stopped_at:
        # Upstream's texts differ from plugin to plugin.
        text = f'reading "PreFilter{state.stopped_at}" from cycleState: not found'
        return failed(f'running RemovePod on PreFilter plugin "{state.stopped_at}": {text}')
    for other in potential:
        node_filter.remove_pod(state, pod, other, node)
    if not potential:
        return _NO_VICTIMS
    status = node_filter.run(filters, state, pod, node)
    if not status.is_success:
        return status
    violating, others = by_budget(sorted(potential, key=importance), budgets, forgets_empty=forgets_empty)
    victims: list[PodInfo] = []

    def reprieve(other: PodInfo) -> bool:
        node_filter.add_pod(state, pod, other, node)
        if node_filter.run(filters, state, pod, node).is_success:
            return True
        node_filter.remove_pod(state, pod, other, node)
        victims.append(other)
        return False

    violations = sum([not reprieve(other) for other in violating])
    for other in others:
        reprieve(other)
    if violating and others and not unsorted:
        victims.sort(key=importance)
    return Candidate(node.name, victims, violations)


def by_budget(
    pods: Iterable[PodInfo], budgets: Sequence[Object], *, forgets_empty: bool
) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
    """Separates the pods whose eviction would violate a disruption budget from the others, both in the order
    given.

    `forgets_empty`: budgets with an empty selector protect none, and no budget does pods without labels
    (before pull request 141785).
    """
    left = [(budget.get("status") or {}).get("disruptionsAllowed") or 0 for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        violated = False
        for index, budget in enumerate(budgets):
            if _protects(budget, pod, forgets_empty=forgets_empty):
                left[index] -= 1
                violated = violated or left[index] < 0
        (violating if violated else others).append(pod)
    return violating, others


def _protects(budget: Object, pod: PodInfo, *, forgets_empty: bool) -> bool:
    if budget["metadata"].get("namespace") != pod.namespace or (forgets_empty and not pod.labels):
        return False
    selector = selector_or_nothing((budget.get("spec") or {}).get("selector"))
    if (forgets_empty and selector.is_empty()) or not selector.matches(pod.labels):
        return False
    return pod.name not in ((budget.get("status") or {}).get("disruptedPods") or {})


def enough(nodes: int, percent: int = MIN_PERCENT, absolute: int = MIN_ABSOLUTE) -> int:
    """Number of candidates that ends the search."""
    return min(max(nodes * percent // 100, absolute), nodes)


def dry_run(
    nodes: Sequence[NodeInfo], offset: int, wanted: int, attempt: Callable[[NodeInfo], Candidate | Status]
) -> tuple[list[Candidate], dict[str, Status]]:
    """Collects candidates, those without violations first, until there are enough, and the statuses of nodes
    that are none."""
    clean: list[Candidate] = []
    violating: list[Candidate] = []
    statuses: dict[str, Status] = {}
    for index in range(len(nodes)):
        found = attempt(nodes[(offset + index) % len(nodes)])
        if isinstance(found, Status):
            statuses[nodes[(offset + index) % len(nodes)].name] = found
            continue
        (violating if found.violations else clean).append(found)
        if clean and len(clean) + len(violating) >= wanted:
            break
    return [*clean, *violating], statuses


def cost(candidate: Candidate) -> tuple[Any, ...]:
    """Smaller is better: violations, the most important victim, the sum of priorities, the number."""
    priorities = [victim.priority for victim in candidate.victims]
    return (
        candidate.violations,
        priorities[0],
        sum(priority + _PRIORITY_OFFSET for priority in priorities),
        len(priorities),
    )


def earliest_start(candidate: Candidate) -> str:
    highest = max(victim.priority for victim in candidate.victims)
    return min(start_time(victim) for victim in candidate.victims if victim.priority == highest)


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The cheapest wins; among equals the one whose victims started last, then the first."""
    cheapest = min(cost(candidate) for candidate in candidates)
    equals = [candidate for candidate in candidates if cost(candidate) == cheapest]
    return max(equals, key=earliest_start)


def is_terminating_by_preemption(pod: Object) -> bool:
    if not pod["metadata"].get("deletionTimestamp"):
        return False
    found = find_condition(pod, _CONDITION)
    return found is not None and found.get("status") == "True" and found.get("reason") == _REASON


class Evictor:
    """Evicts victims, at once or in the background; knows for which pods an eviction is under way."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._features = handle.features
        self._preempting: set[str] = set()
        self._last: dict[str, PodInfo] = {}  # preemptor's uid → the victim that it still waits for
        self._tasks: set[asyncio.Task[None]] = set()

    def is_under_way(self, uid: str) -> bool:
        """The eviction lasts until the last victim is being deleted."""
        if uid not in self._preempting:
            return False
        last = self._last.get(uid)
        if last is None:
            return True
        current = self._handle.informer(PODS).get(last.namespace, last.name)
        return current is not None and not current["metadata"].get("deletionTimestamp")

    async def evict_now(self, candidate: Candidate, preemptor: PodInfo) -> None:
        """Evicts all victims, then clears nominations of pods of lower priority; raises FAILURES."""
        self._handle.metrics.preemption_victims.observe(len(candidate.victims))
        victims = self._to_evict(candidate)
        results = await asyncio.gather(
            *(self._evict(victim, preemptor, candidate.node) for victim in victims), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        await self._withdraw(preemptor, candidate.node)

    def evict_later(self, candidate: Candidate, preemptor: PodInfo) -> None:
        """Evicts in the background; until the last victim's turn the preemptor is not tried again."""
        self._handle.metrics.preemption_victims.observe(len(candidate.victims))
        victims = self._to_evict(candidate)
        if not victims:
            return
        self._preempting.add(preemptor.uid)
        task = asyncio.create_task(self._in_background(victims, preemptor, candidate.node))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_background(self, victims: Sequence[PodInfo], preemptor: PodInfo, node: str) -> None:
        metrics, began = self._handle.metrics, self._handle.clock.monotonic()
        result = "success"
        gone = False
        try:
            if not await self._withdraw(preemptor, node):
                result = "error"
            *others, last = victims
            results = await asyncio.gather(
                *(self._evict(victim, preemptor, node) for victim in others), return_exceptions=True
            )
            if any(isinstance(result, BaseException) for result in results):
                result = "error"
            if self._features.preemption.forgets_last_victim:
                self._preempting.discard(preemptor.uid)
            else:
                self._last[preemptor.uid] = last
            gone = not await self._evict(last, preemptor, node)
        except FAILURES as error:
            log.warning("cannot preempt for pod %s: %s", preemptor.key, error)
            result = "error"
        finally:
            self._preempting.discard(preemptor.uid)
            self._last.pop(preemptor.uid, None)
            metrics.observe_preemption(result, self._handle.clock.monotonic() - began)
            if result == "error" or (gone and not self._features.preemption.preemptor_not_activated):
                self._handle.activate(preemptor.uid)

    # -- one victim

    async def _evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> bool:
        """False means that the victim was gone already."""
        client = self._handle.client
        try:
            patch = self._patch(victim, preemptor)
            if patch is not None:
                await patch_pod_status(client, self._handle.clock, victim, patch)
            await client.delete(PODS, victim.name, victim.namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        by = f"pod {preemptor.uid}" if self._features.preemptor_in_event else "a pod"
        self._handle.recorder.event(
            victim.pod,
            "Normal",
            "Preempted",
            f"Preempted by {by} on node {node}",
            action="Preempting",
            related=preemptor.pod if self._features.preemptor_related else None,
        )
        return True

    def _to_evict(self, candidate: Candidate) -> list[PodInfo]:
        every = self._features.preemption.evicts_leaving
        return [
            victim
            for victim in candidate.victims
            if every or not victim.pod["metadata"].get("deletionTimestamp")
        ]

    def _patch(self, victim: PodInfo, preemptor: PodInfo) -> Object | None:
        if not self._features.disruption_condition:
            return None
        name = preemptor.spec.get("schedulerName") or "default-scheduler"
        message = f"{name}: preempting to accommodate a higher priority pod"
        if self._features.preemptor_in_condition:
            message = f"Kube-scheduler: preempting to accommodate a higher priority pod: {preemptor.key}"
        condition = {"type": _CONDITION, "status": "True", "reason": _REASON, "message": message}
        generation = victim.pod["metadata"].get("generation")
        if self._features.observed_generation and generation:
            condition["observedGeneration"] = generation
        old = find_condition(victim.pod, _CONDITION) or {}
        if all(old.get(key) == value for key, value in condition.items()):
            return None
        condition["lastTransitionTime"] = transition_time(old, "True", self._handle.clock.now())
        patch: Object = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        theirs, own = (_qos_class(pod) for pod in (preemptor, victim))
        if self._features.victims_get_other_status and theirs != own:
            patch["status"]["qosClass"] = theirs
        return patch

    # -- promises

    async def _withdraw(self, preemptor: PodInfo, node: str) -> bool:
        """Clears the nominations of pods of lower priority to the node; False means that some could not be
        written."""
        all_written = True
        for pod in [*self._handle.nominator.pods_of(node)]:
            if pod.priority >= preemptor.priority:
                continue
            try:
                await clear_nomination(self._handle, pod)
            except FAILURES as error:
                log.warning("cannot clear the nominated node of pod %s: %s", pod.key, error)
                all_written = False
        return all_written


def _qos_class(pod: PodInfo) -> str:
    return str((pod.pod.get("status") or {}).get("qosClass") or "")


async def clear_nomination(handle: Handle, pod: PodInfo) -> None:
    """Raises FAILURES."""
    if (pod.pod.get("status") or {}).get("nominatedNodeName"):
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}
        await patch_pod_status(handle.client, handle.clock, pod, body)

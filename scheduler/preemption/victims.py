"""Finds the pods that would have to leave one node.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption, SelectVictimsOnNode, 1.36.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.filtering import Filters, NodeFilter
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status, failed, unresolvable

_NOT_STARTED = "~"  # counts as starting now: later than any time

_NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that fits without these pods, the most important first."""

    node: str
    victims: Sequence[PodInfo]
    violations: int  # victims whose disruption budget is exhausted


def start_time(pod: PodInfo) -> str:
    """Returns when the pod was started, as text to compare; later than everything if it was not."""
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
    """Returns the fewest, least important pods to remove from `node`, a clone (as `state` is), or why that
    does not help.

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
    """Returns the pods whose eviction would violate a disruption budget, and the others, both in the order
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
    """Returns whether the budget covers the pod, and the pod's disruption is not under way already."""
    if budget["metadata"].get("namespace") != pod.namespace or (forgets_empty and not pod.labels):
        return False
    try:
        selector = LabelSelector.from_object((budget.get("spec") or {}).get("selector"))
    except SelectorError:
        return False
    if (forgets_empty and selector.is_empty()) or not selector.matches(pod.labels):
        return False
    return pod.name not in ((budget.get("status") or {}).get("disruptedPods") or {})

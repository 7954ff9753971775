"""DefaultPreemption: evicts pods of lower priority so that a pod fits.

Source: k8s.io/kubernetes/pkg/scheduler/framework/{preemption,plugins/defaultpreemption}, 1.36.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from kubeskew.apimachinery.client.refs import POD_DISRUPTION_BUDGETS
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler import preemption
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PostFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import (
    SUCCESS,
    Code,
    Diagnosis,
    Status,
    failed,
    unresolvable,
    unschedulable,
)
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.preemption import FAILURES, Candidate, Evictor, is_terminating_by_preemption

NAME = "DefaultPreemption"

_NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")
_NEVER = "not eligible due to preemptionPolicy=Never."
_TERMINATING = "not eligible due to a terminating pod on the nominated node."
_UNDER_WAY = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption:
    name = NAME

    def __init__(
        self,
        handle: Handle,
        min_percent: int = preemption.MIN_PERCENT,
        min_absolute: int = preemption.MIN_ABSOLUTE,
    ) -> None:
        """The two minima set how many nodes are tried at least before the best of them is taken."""
        self._handle = handle
        self._async = handle.features.async_preemption
        self._minima = (min_percent, min_absolute)
        self._budgets = handle.informer(POD_DISRUPTION_BUDGETS)
        self._evictor = Evictor(handle)

    def events_to_register(self) -> Sequence[EventHint]:
        if not self._async:
            return ()
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
        return (EventHint(deleted, self._may_go_on),)

    def _may_go_on(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        return not self._evictor.is_under_way(pod["metadata"].get("uid", ""))

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if self._async and self._evictor.is_under_way(pod.uid):
            return _UNDER_WAY
        return SUCCESS

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        self._handle.metrics.preemption_attempts.inc()
        result = await self._preempt(state, pod, rejected, nodes)
        status = result.status
        if not status.message:
            return result
        return PostFilterResult(
            Status(status.code, (f"preemption: {status.message}",)), result.nominated_node
        )

    async def _preempt(
        self, state: CycleState, pod: PodInfo, rejected: Mapping[str, Status], nodes: Sequence[NodeInfo]
    ) -> PostFilterResult:
        why_not = self._ineligible(pod, rejected, nodes)
        if why_not:
            return PostFilterResult(unschedulable(why_not))
        found, statuses = self._candidates(state, pod, rejected, nodes)
        if not found:
            errors = [status for status in statuses.values() if status.code is Code.ERROR]
            if errors:
                return PostFilterResult(failed(errors[0].message))
            for node in nodes:
                statuses.setdefault(node.name, _NOT_HELPFUL)
            return PostFilterResult(unschedulable(Diagnosis(len(nodes), statuses).message()), "")
        chosen = preemption.best(found)
        if self._async:
            self._evictor.evict_later(chosen, pod)
        else:
            try:
                await self._evictor.evict_now(chosen, pod)
            except FAILURES as error:
                return PostFilterResult(failed(error))
        return PostFilterResult(SUCCESS, chosen.node)

    def _ineligible(self, pod: PodInfo, rejected: Mapping[str, Status], nodes: Sequence[NodeInfo]) -> str:
        """The text says why the pod must not preempt others (now); it is empty if the pod may."""
        if pod.spec.get("preemptionPolicy") == "Never":
            return _NEVER
        nominated = (pod.pod.get("status") or {}).get("nominatedNodeName")
        if not nominated:
            return ""
        status = rejected.get(nominated)
        if status is not None and status.code is Code.UNRESOLVABLE:
            return ""
        for node in nodes:
            if node.name == nominated and any(
                other.priority < pod.priority and is_terminating_by_preemption(other.pod)
                for other in node.pods.values()
            ):
                return _TERMINATING
        return ""

    def _candidates(
        self, state: CycleState, pod: PodInfo, rejected: Mapping[str, Status], nodes: Sequence[NodeInfo]
    ) -> tuple[list[Candidate], dict[str, Status]]:
        potential = [
            node
            for node in nodes
            if (status := rejected.get(node.name)) is not None and status.code is Code.UNSCHEDULABLE
        ]
        if not potential:
            return [], {}
        offset = int(self._handle.entropy.random() * len(potential))
        wanted = preemption.enough(len(potential), *self._minima)
        attempt = partial(self._attempt, state, pod, self._budgets.list())
        return preemption.dry_run(potential, offset, wanted, attempt)

    def _attempt(
        self, state: CycleState, pod: PodInfo, budgets: Sequence[Object], node: NodeInfo
    ) -> Candidate | Status:
        node_filter, copy = self._handle.node_filter, state.clone()
        found = preemption.select(
            node_filter,
            node_filter.prepare(copy, pod),
            copy,
            pod,
            node.clone(),
            budgets,
            unsorted=self._handle.features.victims_unsorted,
            forgets_empty=self._handle.features.forgets_empty_budgets,
        )
        if isinstance(found, Candidate) and not found.victims:
            return failed(f'expected at least one victim pod on node "{node.name}"')
        return found

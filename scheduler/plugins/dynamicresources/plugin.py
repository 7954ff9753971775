"""DynamicResources: a pod's resource claims, and the extended resources that DRA drivers back.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, 1.32 … 1.37.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources import hints as dynamicresources_hints
from kubeskew.scheduler.plugins.dynamicresources import scoring as dynamicresources_scoring
from kubeskew.scheduler.plugins.dynamicresources.binding import ClaimBinder, PodsOfGroup
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_users import ClaimUsers
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES, ClaimWriter
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import ForeignContextError
from kubeskew.scheduler.plugins.dynamicresources.classic.driver_allocation import DriverAllocation
from kubeskew.scheduler.plugins.dynamicresources.decisions import ClaimDecisions
from kubeskew.scheduler.plugins.dynamicresources.device_classes import DeviceClasses
from kubeskew.scheduler.plugins.dynamicresources.simulation import ClaimSimulation, Simulate
from kubeskew.scheduler.plugins.dynamicresources.state import PodState

NAME = "DynamicResources"

_SIMULATION = f"{NAME}/simulation"  # key of the cycle state


class ClaimServices(NamedTuple):
    """Holds what all profiles of a scheduler know about claims and classes, and how they write claims."""

    claims: ClaimTracker
    classes: DeviceClasses
    users: ClaimUsers
    writer: ClaimWriter
    pods_of_group: PodsOfGroup


class DynamicResources:
    name = NAME

    def __init__(
        self,
        features: DynamicResourcesFeatures,
        services: ClaimServices,
        decisions: ClaimDecisions,
        simulate: Simulate,
        drivers: DriverAllocation | None,
        handle: Handle,
    ) -> None:
        """`simulate` begins a simulation; `drivers` is None where no controllers of drivers allocate
        claims."""
        self._drivers = drivers
        self._features = features
        self._decisions = decisions
        self._simulate = simulate
        self._node = handle.cache.node
        self._hinted = handle.features.queueing_hints
        self._pod_claims = decisions.pod_claims
        self._log = decisions.log
        self._wait = decisions.wait
        self._binder = ClaimBinder(
            services.claims,
            services.writer,
            services.users,
            services.pods_of_group,
            handle.clock,
            handle.entropy,
            handle.metrics.dynamic,
            forgets_refused=handle.features.forgets_refused_claim,
        )

    def events_to_register(self) -> Sequence[EventHint]:
        hints = dynamicresources_hints.hints(self._pod_claims.of, self._features, with_hints=self._hinted)
        return hints if self._drivers is None else [*hints, self._drivers.context_hint]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if not pod.spec.get("resourceClaims"):
            return SUCCESS
        try:
            self._pod_claims.of(pod.pod)
        except ClaimNotUsable as error:
            return unresolvable(str(error))
        return SUCCESS

    # -- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        simulation: ClaimSimulation | None = state.read(_SIMULATION)
        own = self._decisions.pre_filter(pod) if simulation is None else simulation.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            if simulation is None and not (own.status.is_success or own.status.is_skip):
                self._log.rejected("PreFilter", own.status, pod=pod.key)
            return own
        if self._drivers is not None and simulation is None:
            try:
                own.driven = self._drivers.of_pod(pod, [claim.claim for claim in own.claims])
            except ForeignContextError as error:
                return PreFilterResult(failed(error))
        state.write(NAME, own)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: PodState = state.read(NAME)
        simulation: ClaimSimulation | None = state.read(_SIMULATION)
        if simulation is not None:
            return simulation.filter(own, pod, node)
        status = SUCCESS
        if self._drivers is not None and own.driven is not None:
            status = self._drivers.filter(own.driven, node)
            if not status.is_success:
                self._log.rejected("Filter", status, pod=pod.key, node=node.name)
        return self._decisions.filter(own, pod, node) if status.is_success else status

    # -- simulating for the cluster autoscaler

    def start_simulation(self, state: CycleState) -> Status:
        state.write(_SIMULATION, self._simulate())
        return SUCCESS

    def simulate_bind_pod(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        simulation: ClaimSimulation = state.read(_SIMULATION)
        return simulation.bind(pod, node)

    def simulate_evict_pod(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        simulation: ClaimSimulation = state.read(_SIMULATION)
        return simulation.evict(pod)

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        own: PodState | None = state.read(NAME)
        if own is None:
            quiet = self._features.quiet_without_claims and not pod.spec.get("resourceClaims")
            return PostFilterResult(_idle("" if quiet else self._features.idle_reason))
        try:
            freed = await self._free_one(own, pod)
        except FAILURES as error:
            return PostFilterResult(failed(error))
        return PostFilterResult(freed if freed is not None else _idle(self._features.stuck_reason))

    async def _free_one(self, own: PodState, pod: PodInfo) -> Status | None:
        if self._drivers is not None and own.driven is not None:
            freed = await self._drivers.free_one(own.driven, pod)
            if freed is not None:
                return freed
        return await self._binder.free_one(own, pod)

    # -- which node

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Skips scoring if all nodes are alike: no claim has alternatives.

        A release that fails to score a pod does so without alternatives, too.
        """
        own: PodState | None = state.read(NAME)
        if own is not None and own.driven is not None and self._drivers is not None:
            self._drivers.negotiation.pre_score(own.driven, [node.name for node in nodes])
        if own is not None and self._features.scores_by_place and dynamicresources_scoring.has_allocated(own):
            return SUCCESS
        if own is None or not self._features.scores_alternatives:
            return SKIP
        return SUCCESS if own.claims and dynamicresources_scoring.has_alternatives(own) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        own: PodState = state.read(NAME)
        choice = own.choices.get(node.name)
        if self._features.scores_by_place and dynamicresources_scoring.has_allocated(own):
            dynamicresources_scoring.refuse(own, choice)
        return 0 if choice is None else dynamicresources_scoring.score(own, choice)

    def normalize(self, scores: dict[str, int]) -> None:
        best = max(scores.values(), default=0)
        for name, value in scores.items():
            scores[name] = value * MAX_NODE_SCORE // best if best else 0

    # -- taking and writing

    async def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: PodState | None = state.read(NAME)
        where = self._node(node)
        if own is None or where is None:
            return SUCCESS
        status = self._decisions.reserve(own, pod, where)
        if not status.is_success or own.driven is None or self._drivers is None:
            return status
        return await self._drivers.negotiation.reserve(own.driven, pod, node, handled=len(own.to_allocate))

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: PodState | None = state.read(NAME)
        if own is None:
            return SUCCESS
        try:
            if own.driven is not None and self._drivers is not None:
                status = await self._drivers.negotiation.pre_bind(own.driven, pod)
                if not status.is_success:
                    return status
            await self._binder.bind(own, pod)
            await self._wait.wait(own, pod, node)
        except FAILURES as error:
            status = failed(error)
            self._log.rejected("PreBind", status, pod=pod.key, node=node)
            return status
        return SUCCESS

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: PodState | None = state.read(NAME)
        if own is None:
            return
        if own.driven is not None and self._drivers is not None:
            await self._drivers.negotiation.unreserve(own.driven, pod)
        await self._binder.undo(own, pod)

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: PodState | None = state.read(NAME)
        if own is not None and own.driven is not None and self._drivers is not None:
            await self._drivers.negotiation.post_bind(pod)


def _idle(reason: str) -> Status:
    return unschedulable(reason) if reason else unschedulable()

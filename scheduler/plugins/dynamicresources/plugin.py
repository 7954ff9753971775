"""DynamicResources: a pod's resource claims, and the extended resources that DRA drivers back.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, 1.32 … 1.37.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kubeskew.apimachinery.node_selectors import selector_matches
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.node_selector_errors import selector_fault
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources import (
    hints as dynamicresources_hints,
)
from kubeskew.scheduler.plugins.dynamicresources import (
    scoring as dynamicresources_scoring,
)
from kubeskew.scheduler.plugins.dynamicresources.binding import FAILURES, ClaimBinder, PodsOfGroup
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_users import ClaimUsers
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import ClaimWriter
from kubeskew.scheduler.plugins.dynamicresources.classic.beside_devices import DriverAllocation
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import ForeignContextError
from kubeskew.scheduler.plugins.dynamicresources.device_classes import DeviceClasses
from kubeskew.scheduler.plugins.dynamicresources.device_readiness import DeviceWait
from kubeskew.scheduler.plugins.dynamicresources.extended_resources import ExtendedResourceClaims
from kubeskew.scheduler.plugins.dynamicresources.node_allocation import DeviceChooser
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import PodClaims
from kubeskew.scheduler.plugins.dynamicresources.state import ExtendedResourcePlan, PodState

NAME = "DynamicResources"


_NOT_HERE = unresolvable("resourceclaim not available on the node").of(NAME)


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
        allocator: Allocator,
        extended_claims: ExtendedResourceClaims | None,
        drivers: DriverAllocation | None,
        handle: Handle,
        profile: str,
    ) -> None:
        """`extended_claims` is None with DRAExtendedResource off, `drivers` where no controllers of drivers
        allocate claims."""
        self._drivers = drivers
        self._features = features
        self._claims = services.claims
        self._node = handle.cache.node
        self._chooser = DeviceChooser(features, allocator, services.claims.allocated.devices, handle.clock)
        self._allocator = allocator
        self._extended_claims = extended_claims
        self._hinted = handle.features.queueing_hints
        self._pod_claims = PodClaims(features, services.claims, services.classes, services.users)
        self._wait = DeviceWait(features, services.claims, handle, profile)
        self._binder = ClaimBinder(
            services.claims,
            services.writer,
            services.users,
            services.pods_of_group,
            handle.entropy,
            handle.metrics.dynamic,
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
        try:
            claims = self._pod_claims.to_schedule(pod.pod)
        except ClaimNotUsable as error:
            return PreFilterResult(unresolvable(str(error)))
        extended_claim = self._extended_claims.of_pod(pod) if self._extended_claims is not None else None
        if not claims and extended_claim is None:
            return PreFilterResult(SKIP)
        for claim in claims:
            status = self._pod_claims.usable(claim.claim, pod.pod)
            if not status.is_success:
                return PreFilterResult(status)
        own = PodState(claims, extended_claim, self._allocator, [])
        own.plans = self._allocator.plan([claim.claim for claim in own.to_allocate])
        own.pinned = [
            (index, selector)
            for index, claim in enumerate(claims)
            if (selector := claim.node_selector) is not None and not claim.is_driven
        ]
        faults = [fault for _, selector in own.pinned if (fault := selector_fault(selector))]
        if faults:
            return PreFilterResult(failed(faults[0]))
        own.lost = self._wait.lost(claims)
        if (
            self._extended_claims is not None
            and own.extended_claim is not None
            and not own.extended_claim.exists
        ):
            own.usual_extended_plan = self._extended_claims.usual(own, own.extended_claim, pod)
        if self._drivers is not None:
            try:
                own.driven = self._drivers.of_pod(pod, [claim.claim for claim in claims])
            except ForeignContextError as error:
                return PreFilterResult(failed(error))
        own.kind = self._chooser.kind(own)
        own.allocation_epoch = self._allocator.allocation_epoch()
        state.write(NAME, own)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: PodState = state.read(NAME)
        if self._drivers is not None and own.driven is not None:
            status = self._drivers.filter(own.driven, node)
            if not status.is_success:
                return status
        known = self._chooser.known(own, node)
        if known is not None:
            return known
        extended_plan = self._on_node(own, pod, node)
        if isinstance(extended_plan, Status):
            return extended_plan
        status = self._chooser.choose(own, extended_plan, node)
        if status is SUCCESS and (own.pinned or own.lost):
            return self._check_allocated(own, node)
        return status

    def _on_node(self, own: PodState, pod: PodInfo, node: NodeInfo) -> ExtendedResourcePlan | Status | None:
        if self._extended_claims is None or own.extended_claim is None:
            return None
        return self._extended_claims.on_node(own, own.extended_claim, pod, node)

    @staticmethod
    def _check_allocated(own: PodState, node: NodeInfo) -> Status:
        """Returns whether the claims that are allocated can be used on the node."""
        unavailable = {
            index for index, selector in own.pinned if not selector_matches(selector, node.labels, node.name)
        }
        unavailable.update(own.lost)
        if not unavailable:
            return SUCCESS
        own.unavailable |= unavailable
        own.choices.pop(node.name, None)
        return _NOT_HERE

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
        """Skips scoring unless a claim has alternatives: else all nodes are alike."""
        own: PodState | None = state.read(NAME)
        if own is not None and own.driven is not None and self._drivers is not None:
            self._drivers.negotiation.pre_score(own.driven, [node.name for node in nodes])
        if own is None or not self._features.scores_alternatives:
            return SKIP
        return SUCCESS if own.claims and dynamicresources_scoring.has_alternatives(own) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        own: PodState = state.read(NAME)
        choice = own.choices.get(node.name)
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
        status = self._reserve_devices(own, pod, where)
        if not status.is_success or own.driven is None or self._drivers is None:
            return status
        return await self._drivers.negotiation.reserve(own.driven, pod, node, handled=len(own.to_allocate))

    def _reserve_devices(self, own: PodState, pod: PodInfo, where: NodeInfo) -> Status:
        extended_plan = self._on_node(own, pod, where)
        if isinstance(extended_plan, Status):
            return extended_plan
        status = self._chooser.chosen(own, extended_plan, where)
        if not status.is_success:
            return status
        choice = own.choices[where.name]
        if choice.found is None:
            return SUCCESS
        try:
            results = choice.found.results()
        except AllocationError as error:
            return failed(error)
        for claim, result in zip(own.to_allocate, results, strict=False):
            claim.result = result
            self._claims.add_pending(claim.uid, result)
        if choice.extended_plan is not None and own.extended_claim is not None:
            own.extended_claim.result = results[-1]
            own.extended_claim.claim = choice.extended_plan.claim
            own.extended_claim.pending_uid = own.extended_claim.claim["metadata"]["uid"]
            own.extended_claim.mappings = choice.extended_plan.requests.mappings
            self._claims.add_pending(own.extended_claim.pending_uid, results[-1])
        return SUCCESS

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
            return failed(error)
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

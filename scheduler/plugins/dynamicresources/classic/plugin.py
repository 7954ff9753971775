"""DynamicResources as it was before device classes, 1.26 to 1.30: drivers allocate claims.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30.
"""

from collections.abc import Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.interfaces import PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.plugins.dynamicresources.binding import FAILURES
from kubeskew.scheduler.plugins.dynamicresources.classic import hints
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import ForeignContextError, PodContext
from kubeskew.scheduler.plugins.dynamicresources.classic.filtering import ClaimFilter
from kubeskew.scheduler.plugins.dynamicresources.classic.inventory import ClassicInventory
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiating import Negotiation
from kubeskew.scheduler.plugins.dynamicresources.classic.pod_claims import ClassicPodClaims, NamedClaim
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import AllocationError
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaim, DriverClaims
from kubeskew.scheduler.plugins.dynamicresources.classic.writing import ClassicWriter

NAME = "DynamicResources"


class ClassicDynamicResources:
    name = NAME

    def __init__(
        self,
        features: ClassicFeatures,
        inventory: ClassicInventory,
        negotiation: Negotiation,
        writer: ClassicWriter,
    ) -> None:
        self._features = features
        self._inventory = inventory
        self._pod_claims = ClassicPodClaims(features, inventory.claims)
        self._filter = ClaimFilter(features, inventory.get_class)
        self._negotiation = negotiation
        self._writer = writer

    def events_to_register(self) -> Sequence[EventHint]:
        return hints.hints(self._pod_claims.of, self._inventory.get_class, self._features)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if self._features.pre_enqueue and pod.spec.get("resourceClaims"):
            try:
                self._pod_claims.of(pod.pod)
            except ClaimNotUsable as error:
                return unresolvable(str(error))
        return SUCCESS

    # -- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        try:
            named = self._pod_claims.of(pod.pod)
            if not named:
                return PreFilterResult(SKIP if self._features.skips else SUCCESS)
            context = self._inventory.contexts.of_pod(pod)
            own = DriverClaims([self._judged(pod.pod, claim, context) for claim in named], context)
        except ClaimNotUsable as error:
            return PreFilterResult(unresolvable(str(error)))
        except (ForeignContextError, AllocationError) as error:
            return PreFilterResult(failed(error))
        if own.handled and self._inventory.allocation is not None:
            own.resources = self._inventory.allocation.resources()
        state.write(NAME, own)
        return PreFilterResult()

    def _judged(self, pod: Object, named: NamedClaim, context: PodContext) -> DriverClaim:
        """Raises ClaimNotUsable for a claim that cannot be used or allocated now, and others' errors."""
        entry, claim = named
        self._pod_claims.check(pod, claim)
        found = DriverClaim(entry, claim)
        if not found.is_pending:
            return found
        found.class_name = claim["spec"].get("resourceClassName", "")
        found.unsuitable = context.unsuitable_nodes(entry)
        if self._features.classes_in_filter:
            return found
        resource_class = self._inventory.get_class(found.class_name)
        if resource_class is None:
            raise ClaimNotUsable(f"resource class {found.class_name} does not exist")
        if resource_class.get("suitableNodes"):
            found.class_selectors = [resource_class["suitableNodes"]]
        allocation = self._inventory.handler_of(resource_class)
        if allocation is None:
            self._pod_claims.check_driver(claim)
            return found
        if allocation.is_in_flight(found.uid):
            raise ClaimNotUsable(f"resource claim {display(claim)} is in the process of being allocated")
        found.handler, found.handled = allocation, allocation.claim(claim, resource_class)
        return found

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is None:
            return SUCCESS
        status = self._filter.check(own, node)
        if status is not SUCCESS or own.resources is None:
            return status
        return own.resources.check(node, [claim.handled for claim in own.handled])

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        own: DriverClaims | None = state.read(NAME)
        if own is None:
            return PostFilterResult(unschedulable("no new claims to deallocate"))
        claim = self._writer.freeable(own, pod)
        if claim is None:
            return PostFilterResult(unschedulable("still not schedulable"))
        try:
            if not await self._writer.clear(claim):
                await self._negotiation.withdraw_node(own, pod)
                await self._writer.request_deallocation(claim)
        except FAILURES as error:
            return PostFilterResult(failed(error))
        if self._features.freeing_succeeds:
            return PostFilterResult(SUCCESS)
        return PostFilterResult(unschedulable("deallocation of ResourceClaim completed"))

    # -- which node

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is not None:
            self._negotiation.pre_score(own, [node.name for node in nodes])
        return SKIP

    # -- taking and writing

    async def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is None:
            return SUCCESS
        try:
            if self._features.writes_in_reserve:
                await self._writer.reserve(own, pod)
            self._allocate(own, node)
        except ClaimNotUsable as error:
            return unresolvable(str(error))
        except FAILURES as error:
            return failed(error)
        except AllocationError as error:
            return failed(f"claim allocation failed unexpectedly: {error}")
        handled = len(own.handled) if self._features.counts_own_claims else 0
        return await self._negotiation.reserve(own, pod, node, handled=handled)

    def _allocate(self, own: DriverClaims, node: str) -> None:
        """Decides on the allocations that are the scheduler's; they are in flight until they are written.

        Nothing is decided while drivers are waited for: the pod comes back then, perhaps for another node.
        """
        if own.resources is None or own.pending:
            return
        results = own.resources.allocate(node, [claim.handled for claim in own.handled])
        for claim, result in zip(own.handled, results, strict=True):
            if claim.handler is not None:
                claim.result = result
                claim.handler.decide(claim.claim, result)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is None or (self._features.writes_in_reserve and self._inventory.allocation is None):
            return SUCCESS
        try:
            status = await self._negotiation.pre_bind(own, pod)
            if status.is_success:
                await self._writer.bind(own, pod)
        except FAILURES as error:
            return failed(error)
        return status

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: DriverClaims | None = state.read(NAME)
        if own is not None:
            await self._negotiation.unreserve(own, pod)
            self._writer.give_up(own)
            await self._writer.unreserve(own, pod)

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        if state.read(NAME) is not None:
            await self._negotiation.post_bind(pod)

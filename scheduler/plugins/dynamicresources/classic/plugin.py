"""DynamicResources as it was before device classes, 1.26 to 1.30: drivers allocate claims.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30.
"""

from collections.abc import Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation, display
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
from kubeskew.scheduler.plugins.dynamicresources.classic.filtering import UNSUITABLE, ClaimFilter
from kubeskew.scheduler.plugins.dynamicresources.classic.inventory import ClassicInventory
from kubeskew.scheduler.plugins.dynamicresources.classic.named_resources import (
    NamedResourcesError,
    StructuredClaim,
)
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiating import Negotiation
from kubeskew.scheduler.plugins.dynamicresources.classic.parameters import Parameters, ParametersError
from kubeskew.scheduler.plugins.dynamicresources.classic.pod_claims import ClassicPodClaims, NamedClaim
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
        except (ForeignContextError, ParametersError, NamedResourcesError) as error:
            return PreFilterResult(failed(error))
        if own.handled:
            own.model = self._inventory.model()
        state.write(NAME, own)
        return PreFilterResult()

    def _judged(self, pod: Object, named: NamedClaim, context: PodContext) -> DriverClaim:
        """Raises ClaimNotUsable for a claim that cannot be used or allocated now, and others' errors."""
        entry, claim = named
        self._pod_claims.check(pod, claim)
        if allocation(claim) is not None:
            return DriverClaim(entry, claim)
        found = DriverClaim(entry, claim, claim["spec"].get("resourceClassName", ""))
        found.unsuitable = context.unsuitable_nodes(entry)
        if self._features.classes_in_filter:
            return found
        resource_class = self._inventory.get_class(found.class_name)
        if resource_class is None:
            raise ClaimNotUsable(f"resource class {found.class_name} does not exist")
        if resource_class.get("suitableNodes"):
            found.class_selectors = [resource_class["suitableNodes"]]
        if self._inventory.structured is not None and resource_class.get("structuredParameters"):
            found.structured = self._structured(claim, resource_class, self._inventory.structured.parameters)
        else:
            self._pod_claims.check_driver(claim)
        return found

    def _structured(self, claim: Object, resource_class: Object, parameters: Parameters) -> StructuredClaim:
        if claim["metadata"]["uid"] in self._inventory.in_flight:
            raise ClaimNotUsable(f"resource claim {display(claim)} is in the process of being allocated")
        of_class = parameters.of_class(resource_class)
        return StructuredClaim(resource_class, of_class, parameters.of_claim(claim, resource_class))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is None:
            return SUCCESS
        status = self._filter.check(own, node)
        if status is not SUCCESS or own.model is None:
            return status
        for claim in own.handled:
            try:
                suits = claim.structured is not None and claim.structured.suits(node.name, own.model)
            except NamedResourcesError as error:
                return unresolvable(f"checking structured parameters failed: {error}")
            if not suits:
                return UNSUITABLE
        return SUCCESS

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
        except FAILURES as error:
            return failed(error)
        except NamedResourcesError as error:
            return failed(f"claim allocation failed unexpectedly: {error}")
        return await self._negotiation.reserve(own, pod, node, handled=len(own.handled))

    def _allocate(self, own: DriverClaims, node: str) -> None:
        """Decide on the allocations that are the scheduler's; they are in flight until they are written."""
        for claim in own.handled:
            if claim.structured is not None and own.model is not None:
                claim.result = claim.structured.allocate(node, own.model)
                status = {**(claim.claim.get("status") or {}), "allocation": claim.result}
                self._inventory.in_flight[claim.uid] = {**claim.claim, "status": status}

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is None or self._features.writes_in_reserve:
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

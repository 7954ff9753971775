"""DynamicResources as it was before device classes, 1.26 to 1.30: drivers allocate claims.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30.
"""

from collections.abc import Callable, Mapping, Sequence

from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.interfaces import PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES
from kubeskew.scheduler.plugins.dynamicresources.classic import hints
from kubeskew.scheduler.plugins.dynamicresources.classic.decisions import ClassicDecisions
from kubeskew.scheduler.plugins.dynamicresources.classic.inventory import ClassicInventory
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiating import Negotiation
from kubeskew.scheduler.plugins.dynamicresources.classic.simulation import ClassicSimulation
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaims
from kubeskew.scheduler.plugins.dynamicresources.classic.writing import ClassicWriter
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import AllocationError

NAME = "DynamicResources"
_SIMULATION = f"{NAME}/simulation"  # key of the cycle state


class ClassicDynamicResources:
    name = NAME

    def __init__(
        self,
        features: ClassicFeatures,
        inventory: ClassicInventory,
        negotiation: Negotiation,
        writer: ClassicWriter,
        simulate: Callable[[], ClassicSimulation],
    ) -> None:
        """`simulate` begins a simulation."""
        self._features = features
        self._inventory = inventory
        self._decisions = ClassicDecisions(features, inventory)
        self._pod_claims = self._decisions.pod_claims
        self._simulate = simulate
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
        simulation: ClassicSimulation | None = state.read(_SIMULATION)
        own = self._decisions.pre_filter(pod) if simulation is None else simulation.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            return own
        state.write(NAME, own)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: DriverClaims | None = state.read(NAME)
        if own is None:
            return SUCCESS
        simulation: ClassicSimulation | None = state.read(_SIMULATION)
        return self._decisions.filter(own, node) if simulation is None else simulation.filter(own, node)

    # -- simulating for the cluster autoscaler

    def start_simulation(self, state: CycleState) -> Status:
        state.write(_SIMULATION, self._simulate())
        return SUCCESS

    def simulate_bind_pod(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        simulation: ClassicSimulation = state.read(_SIMULATION)
        return simulation.bind(pod, node)

    def simulate_evict_pod(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        simulation: ClassicSimulation = state.read(_SIMULATION)
        return simulation.evict(pod)

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

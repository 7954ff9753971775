"""DynamicResources as it was before device classes, 1.26 to 1.30: drivers allocate claims. In a simulation,
claims that the scheduler allocates can be simulated.

Sources: KEP-4381 as drafted (Simulation with CA); pkg/scheduler/framework/plugins/dynamicresources, 1.26 to
1.30.
"""

from collections.abc import Callable, Mapping, Sequence

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.interfaces import CycleState, PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import (
    ClaimTracker,
    SimulatedClaims,
    driver_allocates,
)
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES
from kubeskew.scheduler.plugins.dynamicresources.classic import hints
from kubeskew.scheduler.plugins.dynamicresources.classic.claims import ClassicWriter, is_reserved_for
from kubeskew.scheduler.plugins.dynamicresources.classic.decisions import ClassicDecisions, ClassicInventory
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiation import (
    DriverClaim,
    DriverClaims,
    Negotiation,
)
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import (
    AllocationError,
    OwnAllocation,
    SimulatedAllocation,
)

_ALLOCATED = ("allocation", "driverName")
NAME = "DynamicResources"
_SIMULATION = f"{NAME}/simulation"  # key of the cycle state


class ClassicSimulation(SimulatedClaims):
    def __init__(
        self, decisions: ClassicDecisions, claims: ClaimTracker, allocated: SimulatedAllocation | None
    ) -> None:
        """`decisions` are made from the copy `claims`; `allocated` is None where drivers alone allocate."""
        super().__init__(claims)
        self._decisions = decisions
        self._allocated = allocated

    def pre_filter(self, pod: PodInfo) -> DriverClaims | PreFilterResult:
        """Decides as the plugin's PreFilter, and refuses claims that only a driver's controller allocates."""
        own = self._decisions.pre_filter(pod)
        if isinstance(own, DriverClaims) and own.pending:
            return PreFilterResult(unresolvable(driver_allocates(own.pending[0].claim)))
        return own

    def filter(self, own: DriverClaims, node: NodeInfo) -> Status:
        if self._detect(node) and own.resources is not None and self._allocated is not None:
            own.resources = self._allocated.resources()
        return self._decisions.filter(own, node)

    def bind(self, pod: PodInfo, node: NodeInfo) -> Status:
        own = self.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            return SUCCESS if own.status.is_skip else own.status
        status = self.filter(own, node)
        if not status.is_success:
            return status
        try:
            _allocate(own, node.name)
        except ClaimNotUsable as error:
            return unresolvable(str(error))
        except AllocationError as error:
            return failed(error)
        for claim in own.claims:
            self._bind_claim(claim, pod)
        return SUCCESS

    def _bind_claim(self, own: DriverClaim, pod: PodInfo) -> None:
        claim = own.claim
        status = dict(claim.get("status") or {})
        if own.result is not None and own.handled is not None:
            status |= {"allocation": own.result, "driverName": own.handled.driver}
        if not is_reserved_for(pod.pod, claim):
            consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            status["reservedFor"] = [*reserved_for(claim), consumer]
        self.write({**claim, "status": status})

    def evict(self, pod: PodInfo) -> Status:
        """Removes the pod's reservations, and the allocations that no other pod uses, unless the claims keep
        them."""
        try:
            named = self._decisions.pod_claims.of(pod.pod)
        except ClaimNotUsable:
            named = []  # a pod whose claim is gone holds none
        for _, claim in named:
            if is_reserved_for(pod.pod, claim):
                self.write({**claim, "status": _released(claim, pod)})
        return SUCCESS

    def _detect(self, node: NodeInfo) -> bool:
        """Copies slices for a node that is fictional and not known yet; False means that there are none."""
        origin, allocated = self.origin_of_new(node), self._allocated
        if not origin or allocated is None:
            return False
        allocated.add_node(node.name, origin)
        self.undo_by(lambda: allocated.remove_node(node.name))
        return True


def _allocate(own: DriverClaims, node: str) -> None:
    if own.resources is not None:
        handled = own.handled
        results = own.resources.allocate(node, [claim.handled for claim in handled])
        for claim, result in zip(handled, results, strict=True):
            claim.result = result


def _released(claim: Object, pod: PodInfo) -> Object:
    """Removes the pod from the status; claims that are allocated at once keep their allocation."""
    users = [user for user in reserved_for(claim) if user.get("uid") != pod.uid]
    status = {**claim["status"], "reservedFor": users}
    if users or claim["spec"].get("allocationMode") == "Immediate":
        return status
    return {name: value for name, value in status.items() if name not in _ALLOCATED}


class ClassicDynamicResources:
    name = NAME

    def __init__(
        self,
        features: ClassicFeatures,
        inventory: ClassicInventory,
        negotiation: Negotiation,
        writer: ClassicWriter,
        simulate: Callable[[], ClassicSimulation],
        own: OwnAllocation | None,
    ) -> None:
        self._own = own
        self._features = features
        self._inventory = inventory
        self._decisions = ClassicDecisions(features, inventory)
        self._pod_claims = self._decisions.pod_claims
        self._simulate = simulate
        self._negotiation = negotiation
        self._writer = writer

    def events_to_register(self) -> Sequence[EventHint]:
        return hints.hints(self._pod_claims.of, self._inventory.get_class, self._features, self._own)

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

"""DynamicResources of 1.25+kep3063: waits until drivers have allocated a pod's claims, and reserves them.

Source: KEP-3063 as drafted, section kube-scheduler. Texts are those of the plugin as it shipped in 1.26.
"""

from collections.abc import Mapping, Sequence

from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.node_selectors import selector_matches
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.framework.cycle_state import CycleState
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES
from kubeskew.scheduler.plugins.dynamicresources.classic.pod_claims import ClassicPodClaims
from kubeskew.scheduler.plugins.dynamicresources.drafted.claims import DraftedClaim, DraftedClaims
from kubeskew.scheduler.plugins.dynamicresources.drafted.writing import DraftedWriter
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import UNSUITABLE
from kubeskew.scheduler.plugins.dynamicresources.simulated_claims import driver_allocates

NAME = "DynamicResources"
_SIMULATION = f"{NAME}/simulation"  # key of the cycle state

_NOT_HERE = unresolvable("resourceclaim not available on the node")
_WAITING = unresolvable("waiting for resource driver to allocate resource")
_CHANGED = Action.ADD | Action.UPDATE


class DraftedDynamicResources:
    name = NAME

    def __init__(
        self,
        pod_claims: ClassicPodClaims,
        classes: Mapping[str, Object],
        writer: DraftedWriter,
        entropy: Entropy,
    ) -> None:
        self._pod_claims = pod_claims
        self._classes = classes
        self._writer = writer
        self._entropy = entropy

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.RESOURCE_CLAIM, _CHANGED)),
            EventHint(ClusterEvent(EventResource.RESOURCE_CLASS, _CHANGED)),
            EventHint(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        )

    # -- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        try:
            claims = [DraftedClaim(named.claim) for named in self._pod_claims.of(pod.pod)]
            for claim in claims:
                self._check(claim, pod)
                if claim.is_pending and state.read(_SIMULATION):
                    raise ClaimNotUsable(driver_allocates(claim.claim))
        except ClaimNotUsable as error:
            return PreFilterResult(unresolvable(str(error)))
        if claims:
            state.write(NAME, DraftedClaims(claims))
        return PreFilterResult()

    # -- simulating for the cluster autoscaler

    def start_simulation(self, state: CycleState) -> Status:
        """Notes that nothing is negotiated: there is nothing that a scheduler of this release allocates."""
        state.write(_SIMULATION, True)
        return SUCCESS

    def simulate_bind_pod(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS

    def simulate_evict_pod(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Leaves claims as they are: drivers deallocate them."""
        return SUCCESS

    def _check(self, claim: DraftedClaim, pod: PodInfo) -> None:
        """Raises ClaimNotUsable for a claim that somebody else has to change first."""
        if claim.is_being_freed:
            raise ClaimNotUsable("resourceclaim must be reallocated")
        if not claim.is_pending:
            if not claim.can_be_reserved and not claim.is_reserved_for(pod.uid):
                raise ClaimNotUsable("resourceclaim in use")
        elif claim.is_immediate:
            raise ClaimNotUsable("unallocated immediate resourceclaim")
        elif claim.class_name not in self._classes:
            raise ClaimNotUsable(f"resource class {claim.class_name} does not exist")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Returns the first reason against the node, of pending claims first.

        An allocated claim is noted where it alone keeps the pod away: only there it helps to free it.
        """
        own: DraftedClaims | None = state.read(NAME)
        if own is None:
            return SUCCESS
        unavailable = []
        for index, claim in enumerate(own.claims):
            selector = claim.available_on
            available = selector is None or selector_matches(selector, node.labels, node.name)
            if not claim.is_pending:
                if not available:
                    unavailable.append(index)
            elif node.name in claim.unsuitable_nodes:
                return UNSUITABLE
            elif not available:
                return _NOT_HERE
        own.unavailable.update(dict.fromkeys(unavailable))
        return _NOT_HERE if unavailable else SUCCESS

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        """Has one claim freed, chosen at random; PreFilter sees to it that none is being freed already."""
        own: DraftedClaims | None = state.read(NAME)
        if own is None:
            return PostFilterResult(unschedulable("no new claims to deallocate"))
        noted = [own.claims[index] for index in own.unavailable]
        freeable = [claim for claim in noted if not claim.is_immediate and claim.is_unused_but_by(pod.uid)]
        if not freeable:
            return PostFilterResult(unschedulable("still not schedulable"))
        try:
            await self._writer.request_reallocation(freeable[int(self._entropy.random() * len(freeable))])
        except FAILURES as error:
            return PostFilterResult(failed(error))
        return PostFilterResult(unschedulable("deallocation of ResourceClaim completed"))

    # -- which node

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Keeps the nodes that fit; Reserve writes them together with the one that is selected."""
        own: DraftedClaims | None = state.read(NAME)
        if own is not None:
            own.nodes = [node.name for node in nodes]
        return SKIP

    async def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: DraftedClaims | None = state.read(NAME)
        if own is None:
            return SUCCESS
        try:
            if own.pending:
                await self._writer.select(own, node)
                return _WAITING
            await self._writer.reserve(own, pod)
        except FAILURES as error:
            return failed(error)
        return SUCCESS

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Also tells drivers which nodes fit if another plugin refused before Reserve came here."""
        own: DraftedClaims | None = state.read(NAME)
        if own is not None:
            await self._writer.inform(own)
            await self._writer.unreserve(own, pod)

"""DynamicResources of 1.25+kep3063: waits until drivers have allocated a pod's claims of cdi.k8s.io, and
reserves them. The negotiation about a claim happens in its status.

Sources: KEP-3063 as drafted, section API; KEP-3063 as drafted, sections Pre-score, Reserve, Unreserve and
Post-filter; KEP-3063 as drafted, section kube-scheduler. Texts are those of the plugin as it shipped in 1.26.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import Ref, dra_refs
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker, driver_allocates
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES
from kubeskew.scheduler.plugins.dynamicresources.classic.claims import ClassicPodClaims
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import UNSUITABLE
from kubeskew.scheduler.plugins.dynamicresources.informer_handlers import follow, follow_classes
from kubeskew.scheduler.queue import SchedulingQueue

ALLOCATED, REALLOCATE = "Allocated", "Reallocate"
_UNLIMITED = -1
log = logging.getLogger(__name__)
NAME = "DynamicResources"
_SIMULATION = f"{NAME}/simulation"  # key of the cycle state

_NOT_HERE = unresolvable("resourceclaim not available on the node")
_WAITING = unresolvable("waiting for resource driver to allocate resource")
_CHANGED = Action.ADD | Action.UPDATE


@dataclass(slots=True)
class DraftedClaim:
    """A claim of the pod, as it was last read or written."""

    claim: Object

    @property
    def status(self) -> Object:
        found: Object = self.claim.get("status") or {}
        return found

    @property
    def _scheduling(self) -> Object:
        return self.status.get("scheduling") or {}

    @property
    def is_pending(self) -> bool:
        return self.status.get("phase") not in (ALLOCATED, REALLOCATE)

    @property
    def is_being_freed(self) -> bool:
        return self.status.get("phase") == REALLOCATE

    @property
    def is_immediate(self) -> bool:
        return bool(self.claim["spec"].get("allocationMode") == "Immediate")

    @property
    def class_name(self) -> str:
        return str(self.claim["spec"].get("resourceClassName") or "")

    @property
    def available_on(self) -> Mapping[str, Any] | None:
        """Limits the nodes where the claim can be used, or could; None allows all."""
        found: Mapping[str, Any] | None = (self._scheduling.get("driver") or {}).get("availableOnNodes")
        return found

    @property
    def unsuitable_nodes(self) -> Sequence[str]:
        return (self._scheduling.get("driver") or {}).get("unsuitableNodes") or ()

    @property
    def selected_node(self) -> str:
        return str((self._scheduling.get("scheduler") or {}).get("selectedNode") or "")

    @property
    def potential_nodes(self) -> Sequence[str]:
        return (self._scheduling.get("scheduler") or {}).get("potentialNodes") or ()

    def is_reserved_for(self, uid: str) -> bool:
        return any(user.get("uid") == uid for user in reserved_for(self.claim))

    @property
    def can_be_reserved(self) -> bool:
        limit: int = self.status.get("userLimit", 1)
        return limit == _UNLIMITED or len(reserved_for(self.claim)) < limit

    def is_unused_but_by(self, uid: str) -> bool:
        return all(user.get("uid") == uid for user in reserved_for(self.claim))


@dataclass(slots=True)
class DraftedClaims:
    """Claims stand in the order of the pod's spec."""

    claims: list[DraftedClaim]
    nodes: list[str] | None = (
        None  # that fit the pod; None before PreScore, which one node alone does not need
    )
    nodes_written: bool = False  # by Reserve, for the drivers
    unavailable: dict[int, None] = field(default_factory=dict)  # claims that kept the pod from some node

    @property
    def pending(self) -> list[DraftedClaim]:
        return [claim for claim in self.claims if claim.is_pending]


class DraftedWriter:
    """Every write is of the claim as it was read: of several schedulers that write, one succeeds.

    Methods raise StatusError or a connection error. The tracker receives answers at once.
    """

    def __init__(self, client: APIClient, ref: Ref, claims: ClaimTracker) -> None:
        self._client = client
        self._ref = ref
        self._claims = claims

    async def select(self, own: DraftedClaims, node: str) -> None:
        """Writes to pending claims for which node drivers are to allocate them, and which others fit.

        A node that was selected before and still fits stays: a driver may be at work for it, and a pod whose
        nodes are all alike would otherwise wake itself by selecting another one each time.
        """
        fitting = own.nodes or [node]
        selected = {claim.selected_node for claim in own.pending}
        if len(selected) == 1 and selected <= set(fitting):
            node = min(selected)
        for claim in own.pending:
            await self._write_nodes(claim, node, fitting)
        own.nodes_written = True

    async def inform(self, own: DraftedClaims) -> None:
        """Writes for drivers which nodes fit, without selecting another one. Failures are logged."""
        if own.nodes_written or own.nodes is None:
            return
        try:
            for claim in own.pending:
                await self._write_nodes(claim, claim.selected_node, own.nodes)
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.error("update potential nodes: %s", error)

    async def _write_nodes(self, claim: DraftedClaim, node: str, fitting: Iterable[str]) -> None:
        if claim.selected_node == node and set(claim.potential_nodes) == set(fitting):
            return
        chosen: Object = {"potentialNodes": sorted(fitting)}
        if node:
            chosen["selectedNode"] = node
        scheduling = {**(claim.status.get("scheduling") or {}), "scheduler": chosen}
        await self._update(claim, {**claim.status, "scheduling": scheduling})

    async def reserve(self, own: DraftedClaims, pod: PodInfo) -> None:
        user = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        for claim in own.claims:
            if not claim.is_reserved_for(pod.uid):
                users = [*reserved_for(claim.claim), user]
                await self._update(claim, {**claim.status, "reservedFor": users})

    async def unreserve(self, own: DraftedClaims, pod: PodInfo) -> None:
        """Takes the pod from the users of its claims. Failures are logged: the next attempt finds the pod
        there."""
        for claim in own.claims:
            if not claim.is_reserved_for(pod.uid):
                continue
            users = [user for user in reserved_for(claim.claim) if user.get("uid") != pod.uid]
            try:
                await self._update(claim, _with_users(claim.status, users))
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.error("unreserve claim %s: %s", display(claim.claim), error)

    async def request_reallocation(self, claim: DraftedClaim) -> None:
        """The driver frees the claim later; no node is selected for it any more."""
        status = {**_with_users(claim.status, []), "phase": REALLOCATE}
        scheduling = {
            key: value for key, value in (status.get("scheduling") or {}).items() if key == "driver"
        }
        if "scheduling" in status:
            status["scheduling"] = scheduling
        await self._update(claim, status)

    async def _update(self, claim: DraftedClaim, status: Object) -> None:
        answer = await self._client.update(self._ref, {**claim.claim, "status": status}, "status")
        answer["metadata"].pop("managedFields", None)
        claim.claim = answer
        self._claims.assume(answer)


def _with_users(status: Object, users: list[Object]) -> Object:
    left = {key: value for key, value in status.items() if key != "reservedFor"}
    return {**left, "reservedFor": users} if users else left


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
        """Negotiations are not simulated: there is nothing that a scheduler of this release allocates."""
        state.write(_SIMULATION, True)
        return SUCCESS

    def simulate_bind_pod(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS

    def simulate_evict_pod(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Claims stay as they are: drivers deallocate them."""
        return SUCCESS

    def _check(self, claim: DraftedClaim, pod: PodInfo) -> None:
        """Raises ClaimNotUsable for a claim that must change first."""
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
        """The first reason against the node decides, of pending claims first.

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
        """Writes for drivers, too, which nodes fit if another plugin refused before Reserve came here."""
        own: DraftedClaims | None = state.read(NAME)
        if own is not None:
            await self._writer.inform(own)
            await self._writer.unreserve(own, pod)


class DraftedState:
    extended = None  # no class backs extended resources
    totals = None

    def __init__(
        self, environment: Environment, features: SchedulerFeatures, classic: ClassicFeatures
    ) -> None:
        self._features = features
        self._refs = dra_refs(environment.version)
        self.claims = ClaimTracker()
        self._classes: dict[str, Object] = {}
        self._pod_claims = ClassicPodClaims(classic, self.claims)

    def plugin(self, handle: Handle, profile: str, args: Mapping[str, Any]) -> DraftedDynamicResources:
        """Raises ConfigurationError, for the plugin takes no arguments."""
        self._features.dynamic.with_arguments(args)
        writer = DraftedWriter(handle.client, self._refs.claims, self.claims)
        return DraftedDynamicResources(self._pod_claims, self._classes, writer, handle.entropy)

    def connect(self, factory: InformerFactory, queue: SchedulingQueue) -> None:
        self.claims.listener = queue.move_all_to_active_or_backoff_queue
        follow(factory, self._refs.claims, self.claims.set_claim, self.claims.remove_claim)
        follow_classes(factory, self._refs.device_classes, self._classes, queue)

"""Claims that a driver's controller allocates, next to those that the scheduler gives devices: 1.31.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.31 (gate DRAControlPlaneController).
"""

from collections.abc import Callable, Sequence

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import scheduling_context_ref
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import VersionConverter
from kubeskew.scheduler.plugins.dynamicresources.classic.claims import ClassicPodClaims, ClassicWriter, names
from kubeskew.scheduler.plugins.dynamicresources.classic.decisions import ClaimFilter
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.hints import context_hint
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiation import (
    DriverClaim,
    DriverClaims,
    Negotiation,
    SchedulingContexts,
)
from kubeskew.scheduler.plugins.dynamicresources.driver_allocation import GetClass
from kubeskew.scheduler.plugins.dynamicresources.informer_handlers import follow
from kubeskew.scheduler.queue import SchedulingQueue


class ControllersAllocation:
    """All that has to do with drivers' controllers, for one profile; a DriverAllocation."""

    def __init__(
        self,
        features: ClassicFeatures,
        claims: ClaimTracker,
        contexts: SchedulingContexts,
        get_class: Callable[[str], Object | None],
        negotiation: Negotiation,
        writer: ClassicWriter,
    ) -> None:
        self._features = features
        self._contexts = contexts
        self._get_class = get_class
        self._pod_claims = ClassicPodClaims(features, claims)
        self._filter = ClaimFilter(features, get_class)
        self._writer = writer
        self._negotiation = negotiation

    @property
    def context_hint(self) -> EventHint:
        return context_hint(self._pod_claims.of)

    def of_pod(self, pod: PodInfo, claims: Sequence[Object]) -> DriverClaims:
        """Only claims that name a controller are included. Raises ForeignContextError."""
        entries = {name: entry for entry, name, _ in names(pod.pod, self._features)}
        context = self._contexts.of_pod(pod)
        own = DriverClaims([], context)
        for claim in claims:
            if is_driven(claim):
                entry = entries[claim["metadata"]["name"]]
                selectors = [*self._selectors(claim)]
                unsuitable = context.unsuitable_nodes(entry)
                found = DriverClaim(entry, claim, class_selectors=selectors, unsuitable=unsuitable)
                own.claims.append(found)
        return own

    def _selectors(self, claim: Object) -> Sequence[Object]:
        requests = (claim["spec"].get("devices") or {}).get("requests") or ()
        classes = [
            self._get_class((request.get("exactly") or {}).get("deviceClassName", "")) for request in requests
        ]
        selectors = [(found.get("spec") or {}).get("suitableNodes") for found in classes if found is not None]
        return [selector for selector in selectors if selector]

    def filter(self, own: DriverClaims, node: NodeInfo) -> Status:
        return self._filter.check(own, node)

    async def free_one(self, own: DriverClaims, pod: PodInfo) -> Status | None:
        """Asks a driver to give back one claim that keeps the pod from nodes; None if there is none."""
        claim = self._writer.freeable(own, pod)
        if claim is None:
            return None
        await self._negotiation.withdraw_node(own, pod)
        await self._writer.request_deallocation(claim)
        return unschedulable("deallocation of ResourceClaim completed")

    def pre_score(self, own: DriverClaims, nodes: Sequence[str]) -> None:
        self._negotiation.pre_score(own, nodes)

    async def reserve(self, own: DriverClaims, pod: PodInfo, node: str, *, handled: int) -> Status:
        return await self._negotiation.reserve(own, pod, node, handled=handled)

    async def pre_bind(self, own: DriverClaims, pod: PodInfo) -> Status:
        return await self._negotiation.pre_bind(own, pod)

    async def unreserve(self, own: DriverClaims, pod: PodInfo) -> None:
        await self._negotiation.unreserve(own, pod)

    async def post_bind(self, pod: PodInfo) -> None:
        await self._negotiation.post_bind(pod)


class ControllersOfDrivers:
    """The scheduling contexts, through which all profiles of a scheduler speak to drivers' controllers."""

    def __init__(self, environment: Environment, features: ClassicFeatures) -> None:
        self._features = features
        self._ref = scheduling_context_ref(environment.version)
        self._contexts = SchedulingContexts(self._ref, features)

    def allocation(
        self, handle: Handle, claims: ClaimTracker, get_class: GetClass, edge: VersionConverter
    ) -> ControllersAllocation:
        features, client, entropy = self._features, handle.client, handle.entropy
        return ControllersAllocation(
            features,
            claims,
            self._contexts,
            get_class,
            Negotiation(features, self._contexts, client, entropy),
            ClassicWriter(features, client, edge, claims, handle.clock, entropy),
        )

    def connect(self, factory: InformerFactory, queue: SchedulingQueue) -> None:
        self._contexts.listener = queue.move_all_to_active_or_backoff_queue
        follow(factory, self._ref, self._contexts.set_context, self._contexts.remove_context)


def is_driven(claim: Object) -> bool:
    return bool(claim["spec"].get("controller"))

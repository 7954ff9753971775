"""Claims that a driver's controller allocates, next to those that the scheduler gives devices: 1.31.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.31 (gate DRAControlPlaneController).
"""

from collections.abc import Callable, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status, unschedulable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
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


class DriverAllocation:
    """All that has to do with drivers' controllers, for one profile."""

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
        self.negotiation = negotiation

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
        await self.negotiation.withdraw_node(own, pod)
        await self._writer.request_deallocation(claim)
        return unschedulable("deallocation of ResourceClaim completed")


def is_driven(claim: Object) -> bool:
    return bool(claim["spec"].get("controller"))

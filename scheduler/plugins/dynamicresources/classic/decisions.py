"""Decides where a pod's claims of classic releases can be had: PreFilter and Filter, which see whether a node
suits the claims that drivers have allocated, or are to allocate.

The claims and slices are those of the informers, or those of a simulation's snapshot.

Sources: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31 (Filter);
pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.claims import ClassicPodClaims, NamedClaim
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiation import (
    DriverClaim,
    DriverClaims,
    PodContext,
    SchedulingContexts,
)
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import (
    UNSUITABLE,
    AllocationError,
    SchedulerAllocation,
)
from kubeskew.scheduler.plugins.dynamicresources.driver_allocation import ForeignContextError

_NOT_HERE = unresolvable("resourceclaim not available on the node")


@dataclass(slots=True)
class ClassicInventory:
    """All profiles of a scheduler share it."""

    claims: ClaimTracker
    contexts: SchedulingContexts
    allocation: SchedulerAllocation | None = None  # None where drivers alone allocate
    classes: dict[str, Object] = field(default_factory=dict)

    def get_class(self, name: str) -> Object | None:
        return self.classes.get(name)

    def handler_of(self, resource_class: Object) -> SchedulerAllocation | None:
        """None means that a driver allocates the claims of the class, not the scheduler."""
        if self.allocation is not None and self.allocation.handles(resource_class):
            return self.allocation
        return None


class ClaimFilter:
    """`get_class` finds a ResourceClass by its name."""

    def __init__(self, features: ClassicFeatures, get_class: Callable[[str], Object | None]) -> None:
        self._features = features
        self._get_class = get_class
        self._excluded = unresolvable(features.node_filter_reason)

    def check(self, own: DriverClaims, node: NodeInfo) -> Status:
        """The first reason against the node decides.

        Claims that are allocated elsewhere are noted if they are the only reason. With the bug all of them
        are, if a claim in one of as many first places is one that waits for a pod (pull request 122415).
        """
        unavailable = []
        for index, claim in enumerate(own.claims):
            if not claim.is_pending:
                selector = claim.available_on
                if selector is not None and not selector_matches(selector, node.labels, node.name):
                    unavailable.append(index)
                continue
            status = self._check_pending(claim, node)
            if status is not SUCCESS:
                return status
        if not unavailable:
            return SUCCESS
        if not self._features.frees_immediate:
            own.unavailable.update(dict.fromkeys(index for index in unavailable if _is_delayed(own, index)))
        elif any(_is_delayed(own, position) for position in range(len(unavailable))):
            own.unavailable.update(dict.fromkeys(unavailable))
        return _NOT_HERE

    def _check_pending(self, claim: DriverClaim, node: NodeInfo) -> Status:
        selectors = claim.class_selectors
        if self._features.classes_in_filter:
            found = self._get_class(claim.class_name)
            if found is None:
                text = f'resourceclass.resource.k8s.io "{claim.class_name}" not found'
                return failed(f"look up resource class: {text}")
            selectors = [found["suitableNodes"]] if found.get("suitableNodes") else []
        if not all(selector_matches(selector, node.labels, node.name) for selector in selectors):
            return self._excluded
        return UNSUITABLE if node.name in (claim.unsuitable or ()) else SUCCESS


def _is_delayed(own: DriverClaims, index: int) -> bool:
    return bool(own.claims[index].claim["spec"].get("allocationMode") != "Immediate")


class ClassicDecisions:
    def __init__(self, features: ClassicFeatures, inventory: ClassicInventory) -> None:
        self._features = features
        self._inventory = inventory
        self.pod_claims = ClassicPodClaims(features, inventory.claims)
        self._filter = ClaimFilter(features, inventory.get_class)

    def pre_filter(self, pod: PodInfo) -> DriverClaims | PreFilterResult:
        """The state that Filter needs; or the result, if the pod fits nowhere or has no claims."""
        try:
            named = self.pod_claims.of(pod.pod)
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
        return own

    def _judged(self, pod: Object, named: NamedClaim, context: PodContext) -> DriverClaim:
        """Raises ClaimNotUsable for a claim that cannot be used or allocated now; other errors pass."""
        entry, claim = named
        self.pod_claims.check(pod, claim)
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
            self.pod_claims.check_driver(claim)
            return found
        if allocation.is_in_flight(found.uid):
            raise ClaimNotUsable(f"resource claim {display(claim)} is in the process of being allocated")
        found.handler, found.handled = allocation, allocation.claim(claim, resource_class)
        return found

    def filter(self, own: DriverClaims, node: NodeInfo) -> Status:
        status = self._filter.check(own, node)
        if status is not SUCCESS or own.resources is None:
            return status
        return own.resources.check(node, [claim.handled for claim in own.handled])

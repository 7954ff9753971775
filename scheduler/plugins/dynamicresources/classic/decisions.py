"""Decides where a pod's claims of classic releases can be had: PreFilter and Filter.

The claims and slices are those of the informers, or those of a simulation's snapshot.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import ForeignContextError, PodContext
from kubeskew.scheduler.plugins.dynamicresources.classic.filtering import ClaimFilter
from kubeskew.scheduler.plugins.dynamicresources.classic.inventory import ClassicInventory
from kubeskew.scheduler.plugins.dynamicresources.classic.pod_claims import ClassicPodClaims, NamedClaim
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaim, DriverClaims
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import AllocationError


class ClassicDecisions:
    """Decides from one inventory."""

    def __init__(self, features: ClassicFeatures, inventory: ClassicInventory) -> None:
        self._features = features
        self._inventory = inventory
        self.pod_claims = ClassicPodClaims(features, inventory.claims)
        self._filter = ClaimFilter(features, inventory.get_class)

    def pre_filter(self, pod: PodInfo) -> DriverClaims | PreFilterResult:
        """Returns what Filter needs of the pod; or the result, if it fits nowhere or has no claims."""
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
        """Raises ClaimNotUsable for a claim that cannot be used or allocated now, and others' errors."""
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
        """Returns whether the node has what the claims need, and those that are allocated are usable."""
        status = self._filter.check(own, node)
        if status is not SUCCESS or own.resources is None:
            return status
        return own.resources.check(node, [claim.handled for claim in own.handled])

"""Finds the claims of a pod, and decides whether it can be scheduled with them at all."""

from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import (
    ClaimNotUsable,
    allocation,
    claim_names,
    display,
)
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.framework.status import SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_users import ClaimUsers
from kubeskew.scheduler.plugins.dynamicresources.device_classes import DeviceClasses
from kubeskew.scheduler.plugins.dynamicresources.state import PodClaim


class PodClaims:
    """The claims of pods, as their specs and statuses name them."""

    def __init__(
        self,
        features: DynamicResourcesFeatures,
        claims: ClaimTracker,
        classes: DeviceClasses,
        users: ClaimUsers,
    ) -> None:
        self._features = features
        self._claims = claims
        self._classes = classes
        self._users = users

    def of(self, pod: Object) -> list[Object]:
        """Returns the pod's claims; raises ClaimNotUsable."""
        namespace = pod["metadata"].get("namespace", "")
        found = []
        for name, must_be_owned in claim_names(pod):
            claim = self._claims.get(namespace, name)
            if claim is None:
                raise ClaimNotUsable(f'could not find ResourceClaim "{namespace}/{name}"')
            if claim["metadata"].get("deletionTimestamp"):
                raise ClaimNotUsable(f'resourceclaim "{name}" is being deleted')
            if must_be_owned:
                self._users.check_owner(claim, pod)
            found.append(claim)
        return found

    def to_schedule(self, pod: Object) -> list[PodClaim]:
        """Returns the pod's claims for one attempt; raises ClaimNotUsable."""
        return [PodClaim(claim, self._users.consumer(claim, pod)) for claim in self.of(pod)]

    def usable(self, claim: Object) -> Status:
        """Returns whether a claim can be used or allocated at all."""
        if self._features.refuses_controllers and claim["spec"].get("controller"):
            return unresolvable("resourceclaim depends on disabled DRAControlPlaneController feature")
        if (claim.get("status") or {}).get("deallocationRequested"):
            return unresolvable("resourceclaim must be reallocated")
        if allocation(claim) is not None:
            return SUCCESS  # whoever uses it: how many may is what the API server limits
        if self._claims.is_pending(claim["metadata"]["uid"]):
            return unresolvable(f"resource claim {display(claim)} is in the process of being allocated")
        for status in self._judged_requests(claim):
            if not status.is_success:
                return status
        return SUCCESS

    def _judged_requests(self, claim: Object) -> Iterator[Status]:
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            name, alternatives = request["name"], request.get("firstAvailable") or ()
            where = f"resource claim {display(claim)}, request {name}"
            if request.get("exactly") or not self._features.knows_alternatives:
                yield self._judged_class(name, request.get("exactly") or {})
            elif not alternatives:
                yield unresolvable(f"{where}: unknown request type")
            elif not self._features.prioritized_list:
                yield unresolvable(
                    f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
                )
            else:
                yield from (
                    self._judged_class(f"{name}/{alternative['name']}", alternative)
                    for alternative in alternatives
                )

    def _judged_class(self, request: str, part: Object) -> Status:
        name = part.get("deviceClassName")
        if not name:
            return failed(f"request {request}: unsupported request type")
        if self._classes.get(name) is None:
            return unresolvable(f"request {request}: device class {name} does not exist")
        return SUCCESS

"""The resource claim controller of KEP-4381 as drafted.

It deallocates what the scheduler allocated, and also what the scheduler gave up: later such a claim stays
allocated. What a driver was asked to give back it takes over, which 1.30 cannot.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.resourceclaim.classic.controller import ClassicClaimController
from kubeskew.controllers.resourceclaim.classic.reservations import ClassicReleaser


class SemanticReleaser(ClassicReleaser):
    def is_over(self, claim: Object) -> bool:
        """The scheduler may have given up the pod for which the claim was created."""
        allocated = bool((claim.get("status") or {}).get("allocation"))
        return super().is_over(claim) or (allocated and self.is_delayed(claim))

    def clear(self, status: Object) -> None:
        """A request to a driver, made by a controller of another release, is removed, too."""
        super().clear(status)
        status.pop("deallocationRequested", None)


class SemanticClaimController(ClassicClaimController):
    releaser = SemanticReleaser

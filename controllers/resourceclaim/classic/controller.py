"""The resource claim controller of 1.26 to 1.31, where drivers may allocate claims."""

from kubeskew.controllers.resourceclaim.classic.reservations import ClassicBoundPods, ClassicReleaser
from kubeskew.controllers.resourceclaim.controller import ResourceClaimController


class ClassicClaimController(ResourceClaimController):
    releaser = ClassicReleaser
    bound_pods = ClassicBoundPods

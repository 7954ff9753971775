"""Says what the plugin of classic releases needs of the scheduler's own allocation: 1.30's structured
parameters, or semantic parameters as KEP-4381 drafted them."""

from collections.abc import Sequence
from typing import Any, Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker

UNSUITABLE = unresolvable("resourceclaim cannot be allocated for the node (unsuitable)")


class AllocationError(Exception):
    """Something that needs no waiting for prevents an allocation; the text is for people."""


class HandledClaim(Protocol):
    """A claim that the scheduler is to allocate, with its parameters."""

    @property
    def driver(self) -> str: ...


class Resources(Protocol):
    """Knows what can be had during one attempt at a pod, whose `claims` are as `claim` made them."""

    def check(self, node: NodeInfo, claims: Sequence[Any]) -> Status:
        """Returns success if the node has what the claims need, else why not."""

    def allocate(self, node: str, claims: Sequence[Any]) -> Sequence[Object]:
        """Returns an allocation for each claim. Raises AllocationError, or ClaimNotUsable where the node
        does not have it any more."""


class SchedulerAllocation(Protocol):
    """Allocates claims of some classes; all profiles of a scheduler share it."""

    def handles(self, resource_class: Object) -> bool:
        """Returns whether claims of the class are the scheduler's to allocate."""

    def claim(self, claim: Object, resource_class: Object) -> HandledClaim:
        """Raises ClaimNotUsable if the parameters are not there yet, or AllocationError."""

    def resources(self) -> Resources:
        """Returns what can be had now."""

    def is_in_flight(self, uid: str) -> bool:
        """Returns whether an allocation of the claim is decided and not written."""

    def decide(self, claim: Object, result: Object) -> None:
        """Takes the allocation that a claim will get."""

    def land(self, claim: Object, *, written: bool) -> None:
        """Ends what `decide` began, after the write or without."""

    def simulated(self, claims: ClaimTracker) -> tuple[ClaimTracker, "SimulatedAllocation"]:
        """Returns a copy of the claims, and what allocates from it without anybody else's knowledge."""


class SimulatedAllocation(SchedulerAllocation, Protocol):
    """Allocates in a simulation."""

    def add_node(self, name: str, origin: str) -> None:
        """Adds a node that has what drivers published about another one."""

    def remove_node(self, name: str) -> None:
        """Removes a node that was added."""

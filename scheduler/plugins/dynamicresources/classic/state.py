"""Holds what is remembered of claims that drivers allocate, during one attempt at one pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import PodContext
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import (
    HandledClaim,
    Resources,
    SchedulerAllocation,
)

Selector = Mapping[str, Any]


@dataclass(slots=True)
class DriverClaim:
    """A claim of the pod. `class_name` is looked up per node until 1.27; later the selectors are here."""

    entry: str
    claim: Object
    class_name: str = ""
    class_selectors: Sequence[Selector] = ()  # of nodes that the class allows, while it is not allocated
    unsuitable: frozenset[str] | None = None  # nodes, by the driver; None before it said anything
    handler: SchedulerAllocation | None = None  # what allocates it in the scheduler; None if a driver does
    handled: HandledClaim | None = None  # the claim, as its handler sees it
    result: Object | None = None  # the scheduler's allocation, set by Reserve and written by PreBind

    @property
    def uid(self) -> str:
        return str(self.claim["metadata"]["uid"])

    @property
    def is_pending(self) -> bool:
        return allocation(self.claim) is None

    @property
    def available_on(self) -> Selector | None:
        """Returns the selector of nodes where the allocated claim can be used; None is everywhere."""
        result = allocation(self.claim) or {}
        found: Selector | None = result.get("availableOnNodes") or result.get("nodeSelector")
        return found


@dataclass(slots=True)
class DriverClaims:
    """The pod's claims that drivers allocate or have allocated, in the order of its spec."""

    claims: list[DriverClaim]
    context: PodContext
    scored: bool = False  # whether PreScore has chosen the potential nodes
    unavailable: dict[int, None] = field(default_factory=dict)  # claims that kept the pod from some node
    resources: Resources | None = None  # of what the scheduler itself allocates

    @property
    def pending(self) -> list[DriverClaim]:
        """Returns the claims that drivers are to allocate."""
        return [claim for claim in self.claims if claim.is_pending and claim.handled is None]

    @property
    def handled(self) -> list[DriverClaim]:
        """Returns the claims that the scheduler is to allocate."""
        return [claim for claim in self.claims if claim.is_pending and claim.handled is not None]

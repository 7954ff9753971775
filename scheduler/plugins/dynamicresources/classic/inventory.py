"""Holds what the scheduler of a classic release knows of claims, classes and contexts."""

from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import SchedulingContexts
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import SchedulerAllocation


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
        """Returns what allocates the claims of the class in the scheduler; None if a driver does."""
        if self.allocation is not None and self.allocation.handles(resource_class):
            return self.allocation
        return None

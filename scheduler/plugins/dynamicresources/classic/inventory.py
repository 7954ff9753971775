"""Holds what the scheduler of a classic release knows of claims, classes, contexts and slices."""

from dataclasses import dataclass, field

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import SchedulingContexts
from kubeskew.scheduler.plugins.dynamicresources.classic.named_resources import ResourceModel
from kubeskew.scheduler.plugins.dynamicresources.classic.parameters import Parameters


@dataclass(frozen=True, slots=True)
class StructuredInventory:
    """Holds what only 1.30 has: parameters that the scheduler understands, and the slices of nodes."""

    parameters: Parameters
    slices: Informer


@dataclass(slots=True)
class ClassicInventory:
    """All profiles of a scheduler share it."""

    claims: ClaimTracker
    contexts: SchedulingContexts
    structured: StructuredInventory | None = None
    classes: dict[str, Object] = field(default_factory=dict)
    in_flight: dict[str, Object] = field(default_factory=dict)  # by uid: claims whose allocation is decided

    def get_class(self, name: str) -> Object | None:
        return self.classes.get(name)

    def model(self) -> ResourceModel:
        """Returns what is free of the named resources now."""
        slices = self.structured.slices.list() if self.structured is not None else []
        written = (claim for claim in self.claims.all() if claim["metadata"]["uid"] not in self.in_flight)
        return ResourceModel(slices, (*written, *self.in_flight.values()))

"""The faults of a cluster at one time, as data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.component_names import names_of
from kubeskew.apimachinery.faults.fault import Fault


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of the plan. `generation` is the revision of the plan at which it was set."""

    generation: int
    fault: Fault
    body: dict[str, Any]  # as it was written

    def as_json(self) -> dict[str, Any]:
        return {"set": self.generation, "fault": self.body}


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of a cluster. `revision` grows with each change."""

    revision: int = 0
    entries: tuple[PlannedFault, ...] = ()

    def of(self, component: str) -> Sequence[PlannedFault]:
        """Returns the faults of a component, also those that were put into it together with another."""
        names = names_of(component)
        return [entry for entry in self.entries if entry.fault.component in names]

    def as_json(self) -> dict[str, Any]:
        return {"revision": self.revision, "faults": [entry.as_json() for entry in self.entries]}

"""Says of a fault how far it has come, and why it may not have fired."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.faults.fault import Fault

_SHOWN = 12  # kinds of calls


@dataclass(frozen=True, slots=True)
class FaultReport:
    """A fault, how many calls it selected, how often it fired, and what its component called since."""

    fault: Fault
    matched: int = 0
    fired: int = 0
    seen: Mapping[str, int] = field(default_factory=dict)  # calls by verb and resource

    @property
    def missed(self) -> bool:
        """Decides whether it should have fired, and has not."""
        return not self.fired and not self.fault.optional

    @property
    def state(self) -> str:
        """Returns a word for tables."""
        return "fired" if self.fired else "armed"

    def as_json(self) -> dict[str, Any]:
        fault = self.fault
        return {
            "id": fault.id,
            "component": fault.component,
            "fault": str(fault).removeprefix(f"{fault.component}: "),
            "fired": self.fired,
            "calls": self.matched,
            "state": self.state,
        }

    def missing(self) -> str:
        """Returns the sentence about a fault that never fired, with the calls there were instead."""
        calls = f"{self.matched} call{'' if self.matched == 1 else 's'}" if self.matched else "no call"
        return (
            f"fault {self.fault.id} never fired ({self.fault}); it selected {calls}. "
            f"{self.fault.component} made since: {self._calls()}"
        )

    def _calls(self) -> str:
        resource = self.fault.where.resource
        known = [(kind, count) for kind, count in self.seen.items() if count]
        known.sort(key=lambda pair: (not resource or resource not in pair[0], -pair[1], pair[0]))
        shown = [f"{count} {kind}" for kind, count in known[:_SHOWN]]
        more = len(known) - len(shown)
        return ", ".join(shown) + (f" and {more} other kinds" if more else "") if shown else "no calls"

"""Lists the moments at which faults were set, fired and were cleared, and what died of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeskew.conformance.evidence.log import FAULT, ComponentChange, Logged

CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class FaultMoment:
    """A moment of a fault: `what` is set, fired, cleared or crashed; `detail` begins with the fault's id."""

    revision: int
    time: str
    component: str
    what: str
    detail: str


def fault_moments(log: Iterable[Logged]) -> list[FaultMoment]:
    """Returns the moments in the order of the log."""
    return [
        FaultMoment(entry.revision, entry.time, entry.component, entry.what.removeprefix(FAULT), entry.detail)
        for entry in log
        if isinstance(entry, ComponentChange) and (entry.what.startswith(FAULT) or entry.what == CRASHED)
    ]

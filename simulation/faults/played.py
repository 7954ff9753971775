"""Says what came of a plan, as plain data that goes from one process to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.invariants.violation import Violation
from kubeskew.simulation.faults.plan import Fault, Plan


@dataclass(slots=True)
class Played:
    """Holds what came of a plan in one simulation.

    `calls` are counted of components that had a fault of their own, by kind of call. `points` are what the
    run has reached, each a text `GROUP: POINT`.
    """

    plan: Plan
    fired: dict[str, int] = field(default_factory=dict)  # by the name of the fault: how often
    violations: list[Violation] = field(default_factory=list)
    healed_because: str = ""
    healed_at: float = 0.0  # virtual seconds
    settled: bool = False  # nothing moved any more in the end
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    points: tuple[str, ...] = ()
    log: Sequence[Logged] = ()
    notes: list[str] = field(default_factory=list)  # what could not be judged or healed

    @property
    def unfired(self) -> list[Fault]:
        """Returns the faults that never fired, and so have shown nothing."""
        return [fault for fault in self.plan.faults if not self.fired.get(fault.name)]

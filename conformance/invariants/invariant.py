"""The protocol of an invariant, its violations, and what a run allows its components.

Allowed are differences of clocks, and caches that are behind, up to a tolerance.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kubeskew.conformance.evidence.nodes import NodeRecords
from kubeskew.conformance.invariants.cluster import Change, Cluster


@dataclass(frozen=True, slots=True)
class Violation:
    """Tells that an invariant did not hold, from which revision on; the message names objects and writers."""

    code: str  # I01 … I25
    name: str  # device-once …
    message: str
    revision: int
    time: str = ""  # RFC 3339 with microseconds

    @property
    def title(self) -> str:
        """Returns what marks of scenarios are searched in: code, name and message."""
        return f"{self.code} {self.name}: {self.message}"

    def __str__(self) -> str:
        return f"{self.code} {self.name} at revision {self.revision}: {self.message}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Holds what is no fault of a component's in a run.

    `clock_skew`: times of different machines that are closer than that say nothing about an order.
    `cache_lag`: what a component decides may be right for the state of so long ago.
    """

    clock_skew: timedelta = timedelta(0)
    cache_lag: timedelta = timedelta(seconds=5)


USUAL = Tolerance()


@dataclass(frozen=True, slots=True)
class ComponentFailure:
    """A component that should run and does not: it never began to, or ended by itself."""

    component: str
    message: str
    at_start: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Holds what is known beside the log when a run is judged at its end."""

    records: NodeRecords = field(default_factory=NodeRecords)
    failures: Sequence[ComponentFailure] = ()
    refusals: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by component: what was forbidden
    feasible: Mapping[str, str] = field(default_factory=dict)  # by uid of a pending pod: a node that it fits
    unready: str = ""  # what all schedulers lack to be ready, if none is
    rereads: Sequence[str] = ()  # objects that an API server reads otherwise once it has started anew


class Invariant(Protocol):
    """One invariant over one run: an instance remembers what it has seen, and is used once."""

    @property
    def code(self) -> str: ...

    @property
    def name(self) -> str: ...

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        """Yields what a write broke; `cluster` has the write already."""
        ...

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterable[str]:
        """Yields what does not hold at the end of the log. `at_rest` says that faults have ended and nothing
        moves any more: only then what should have come about is missed."""
        ...


class SafetyInvariant:
    """Gives an invariant that is judged at writes alone its end."""

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterable[str]:
        return ()


class LivenessInvariant:
    """Gives an invariant that is judged at the end alone its look at writes."""

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        return ()

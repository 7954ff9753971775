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
    """An invariant did not hold, from this revision on; the message names objects and writers."""

    code: str  # I01 … I25
    name: str  # device-once …
    message: str
    revision: int
    time: str = ""  # RFC 3339 with microseconds

    @property
    def title(self) -> str:
        """Marks of scenarios are searched in code, name and message."""
        return f"{self.code} {self.name}: {self.message}"

    def __str__(self) -> str:
        return f"{self.code} {self.name} at revision {self.revision}: {self.message}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Differences that a run does not count against its components.

    `clock_skew`: times of different machines that are closer than that have no order. `cache_lag`: a
    component may decide by a state of that age.
    """

    clock_skew: timedelta = timedelta(0)
    cache_lag: timedelta = timedelta(seconds=5)


USUAL = Tolerance()


@dataclass(frozen=True, slots=True)
class ComponentFailure:
    """A component should run and does not: it never began to, or ended by itself."""

    component: str
    message: str
    at_start: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence besides the log, for the judgement of a run at its end."""

    records: NodeRecords = field(default_factory=NodeRecords)
    failures: Sequence[ComponentFailure] = ()
    refusals: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by component: what was forbidden
    feasible: Mapping[str, str] = field(default_factory=dict)  # by uid of a pending pod: a node that it fits
    unready: str = ""  # missing for all schedulers to be ready, if none is
    rereads: Sequence[str] = ()  # objects that an API server reads otherwise once it has started again


class Invariant(Protocol):
    """One invariant over one run: an instance remembers what it has seen, and is used once."""

    @property
    def code(self) -> str: ...

    @property
    def name(self) -> str: ...

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        """`cluster` has the write already."""
        ...

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterable[str]:
        """`at_rest` is set when faults have ended and nothing moves any more: only then missing results count
        as violations."""
        ...


class SafetyInvariant:
    """Base of invariants that are judged at writes alone."""

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterable[str]:
        return ()


class LivenessInvariant:
    """Base of invariants that are judged at the end alone."""

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        return ()

"""Defines the protocol of an invariant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeskew.conformance.evidence.nodes import NodeRecords
from kubeskew.conformance.invariants.cluster import Change, Cluster


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

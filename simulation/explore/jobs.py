"""Defines what workers are given to do, and what they give back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.invariants.findings import KnownFinding
from kubeskew.simulation.explore.classes import Circumstances, Verdict, classify
from kubeskew.simulation.explore.findings import Failure, Finding
from kubeskew.simulation.faults.plan_generator import Calls


@dataclass(frozen=True, slots=True)
class RunJob:
    """One run: a cell by its number, and the seed that decides the faults and everything else.

    With `plan`, the faults are these; with `steps`, only so many first steps of the scenario are run. `calls`
    are those of a run without faults, if they are known already: faults are drawn at them.
    """

    cell: int
    seed: int
    calls: Calls | None = None
    plan: Mapping[str, Any] | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class FinishJob:
    """A finding whose run is told beside the one without faults, made smaller before in so many seconds."""

    cell: int
    finding: Finding
    seconds: float


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one run. `drawn` counts faults by kind; `fired_faults` has a line for each that fired."""

    seed: int
    log_hash: str
    virtual_seconds: float
    plan: Mapping[str, Any]
    faults: tuple[str, ...]  # the plan, each in a line
    calls: Calls | None = None  # of a run without faults
    drawn: Mapping[str, int] = field(default_factory=dict)
    fired_faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    points: Sequence[str] = ()  # of coverage
    versions: Sequence[Version] = ()  # at which components ran
    failures: Sequence[Failure] = ()

    @property
    def fired(self) -> dict[str, int]:
        """Returns how many faults fired, by kind."""
        return {kind: len(lines) for kind, lines in self.fired_faults.items()}

    def classed(
        self, entries: Sequence[KnownFinding], bugs: Mapping[str, bool]
    ) -> list[tuple[Failure, Verdict]]:
        """Returns each failure with what the scenario, or else an entry, says of it."""
        found = [(failure.invariant, failure.message) for failure in self.failures]
        verdicts = classify(entries, found, Circumstances(self.fired_faults, self.versions, bugs))
        return [
            (failure, failure.mark or verdict)
            for failure, verdict in zip(self.failures, verdicts, strict=True)
        ]


class Laboratory(Protocol):
    """Does the jobs, in whatever process it is called."""

    def run(self, job: RunJob) -> Ran: ...

    def finish(self, job: FinishJob) -> Finding: ...

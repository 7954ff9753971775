"""Jobs of workers, and their results."""

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

    With `plan`, the faults are these; with `steps`, only that many first steps of the scenario are run.
    `calls` are those of a run without faults, if they are known already: faults are drawn at them.
    """

    cell: int
    seed: int
    calls: Calls | None = None
    plan: Mapping[str, Any] | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class FinishJob:
    """A finding to be minimized, for at most these seconds, and laid next to the run without faults."""

    cell: int
    finding: Finding
    seconds: float


@dataclass(frozen=True, slots=True)
class Ran:
    """One run's result. `drawn` counts faults by kind; `fired_faults` has a line for each that fired."""

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
        return {kind: len(lines) for kind, lines in self.fired_faults.items()}

    def classed(
        self, entries: Sequence[KnownFinding], bugs: Mapping[str, bool]
    ) -> list[tuple[Failure, Verdict]]:
        """Each failure comes with its class: by a mark of the scenario, or else by an entry."""
        found = [(failure.invariant, failure.message) for failure in self.failures]
        verdicts = classify(entries, found, Circumstances(self.fired_faults, self.versions, bugs))
        return [
            (failure, failure.mark or verdict)
            for failure, verdict in zip(self.failures, verdicts, strict=True)
        ]


class Laboratory(Protocol):
    """Does the jobs, in any process that calls it."""

    def run(self, job: RunJob) -> Ran: ...

    def finish(self, job: FinishJob) -> Finding: ...

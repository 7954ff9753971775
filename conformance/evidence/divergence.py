"""Finds where a run first parted from another of the same steps.

Writes are compared by what they brought about, not one by one: which of two components is first, or whether
a status comes in one write or two, is chance. At the end of each step, what holds in one run must have been
seen in the other at some time. The first step where that fails is where they parted, and there the first
write that brought what the other never had.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubeskew.conformance.evidence.record import Record, Subject
from kubeskew.conformance.evidence.scrubbing import Fact

MISSING = "missing"  # the other run has it
EXTRA = "extra"  # the other run never had it
_SHOWN = 12


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One fact that only one of the runs has; revision, time and writer are of the run that has it."""

    kind: str
    resource: str
    namespace: str
    name: str
    path: str
    value: str
    revision: int
    time: str
    by: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first step in which two runs differ, and how: the first write's differences first."""

    baseline: str
    step: str
    differences: Sequence[Difference]
    total: int

    @property
    def first(self) -> Difference:
        return self.differences[0]


def diverged(run: Record, other: Record, baseline: str, steps: Sequence[str]) -> Divergence | None:
    """Finds how `run` differs from `other`, the baseline; None if it does not in the steps both have."""
    for index, step in enumerate(steps[: min(len(run.states), len(other.states))]):
        missing = [(each, MISSING, other) for each in sorted(other.states[index] - run.seen.keys())]
        extra = [(each, EXTRA, run) for each in sorted(run.states[index] - other.seen.keys())]
        if missing or extra:
            found = [difference for _, difference in sorted(_differences(missing + extra, index))]
            return Divergence(baseline, step, found[:_SHOWN], len(found))
    return None


def _differences(
    found: Sequence[tuple[tuple[Subject, Fact], str, Record]], step: int
) -> Iterator[tuple[int, Difference]]:
    """Each with how many revisions after the step's beginning, in its own run, it was written."""
    for (subject, fact), kind, owner in found:
        sighting = owner.seen[subject, fact]
        began = owner.ends[step - 1] if step else 0
        yield (
            sighting.revision - began,
            Difference(
                *(kind, *subject[:2], sighting.name, *fact),
                *(sighting.revision, sighting.time, sighting.by),
            ),
        )

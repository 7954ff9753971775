"""Classes findings by what is known of them: `conformance/findings.yaml`, or a file of the user's.

The first entry that fits decides. What no entry fits is `unknown`. conformance/invariants/findings.py says
what entries look like.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeskew.apimachinery.known_bugs import KnownBug, KnownBugs, known_bugs
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.invariants.findings import (
    DEFECT,
    FINDINGS,
    KNOWN,
    UPSTREAM,
    KnownFinding,
    read_findings,
)
from kubeskew.conformance.scenario import ExpectedFailure
from kubeskew.simulation.explore.fault_words import check_fault

UNKNOWN = "unknown"
_BUG = "k8s-"  # begins the ids of known bugs


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Holds what entries ask of a run: the faults that fired, by kind and each in a line, at which versions
    components ran, and the known bugs that are switched."""

    faults: Mapping[str, Sequence[str]]
    versions: Sequence[Version]
    bugs: Mapping[str, bool]

    def has(self, bug: KnownBug) -> bool:
        return any(KnownBugs(version, self.bugs).present(bug.id) for version in self.versions)

    def fired(self, fault: str) -> bool:
        """Returns whether one fired that an entry names by its kind, or by words of its line."""
        kind, _, words = fault.partition(": ")
        return any(words in line for line in self.faults.get(kind, ()))


def _fits(
    entry: KnownFinding, invariant: str, message: str, run: Circumstances, others: Collection[str]
) -> bool:
    """Returns whether a finding is of this kind; `others` are the entries of what the run found besides."""
    bug = known_bugs().get(f"{_BUG}{entry.class_.removeprefix(KNOWN)}")
    if bug is not None and bug.switch and not run.has(bug):
        return False
    if invariant != entry.invariant or not entry.message.search(message):
        return False
    if entry.faults and not any(run.fired(fault) for fault in entry.faults):
        return False
    if entry.beside and not any(name in others for name in entry.beside):
        return False
    low, high = entry.minors or (0, 0)
    return entry.minors is None or any(low <= version.minor <= high for version in run.versions)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a finding; of one that is known, the entry's id, why it comes about, and the source."""

    class_: str
    entry: str = ""
    reason: str = ""
    source: str = ""

    @property
    def fails(self) -> bool:
        """Returns whether somebody has to look at it: it is a defect of ours, or nobody knows."""
        return self.class_ in (DEFECT, UNKNOWN)


def classify(
    entries: Sequence[KnownFinding], found: Sequence[tuple[str, str]], run: Circumstances
) -> list[Verdict]:
    """Returns for each invariant and message of a run the class that the first entry gives which fits;
    `unknown` if none does."""
    alone = [_classified(entries, each, run, ()) for each in found]
    ids = [verdict.entry for verdict in alone]
    return [
        verdict if verdict.entry else _classified(entries, each, run, ids)
        for each, verdict in zip(found, alone, strict=True)
    ]


def _classified(
    entries: Sequence[KnownFinding], found: tuple[str, str], run: Circumstances, others: Collection[str]
) -> Verdict:
    for entry in entries:
        if _fits(entry, *found, run, others):
            return Verdict(entry.class_, entry.id, entry.reason, entry.source)
    return Verdict(UNKNOWN)


def expected(mark: ExpectedFailure) -> Verdict:
    """Returns the class of what a scenario's mark tells of."""
    if mark.finding is not None:
        return Verdict(mark.finding.class_, mark.finding.id, mark.reason, mark.source)
    if mark.bug:
        return Verdict(f"{KNOWN}{mark.bug.removeprefix(_BUG)}", "", mark.reason, mark.source)
    return Verdict(UPSTREAM, "", mark.reason, mark.source)


def read_entries(path: Path = FINDINGS) -> list[KnownFinding]:
    """Returns the entries of a file, in its order. Raises ScenarioError that says what is wrong with it."""
    entries = read_findings(path)
    for index, entry in enumerate(entries):
        for fault in entry.faults:
            check_fault(fault, f"{path}: findings[{index}]: faults")
    return entries

"""Classes of findings by entries of `conformance/findings.yaml`, or of a file of the user's.

The first entry that fits decides. A finding that no entry fits is `unknown`. The format of entries stands in
conformance/invariants/findings.py.

An entry names faults as `KIND`, or `KIND: WORDS` with words of the fault's line, which begin with a
component, a call, or both:

    crash: kubelet/                                     of any kubelet
    late-events: scheduler:
    error: update resourcequotas/status
    stale-watch: scheduler: DELETED event of pods
    crash: NodePrepareResources                         a call of a driver

A misspelt word is found in no line, and nobody would notice the entry that never fits anything. Words that
resemble nothing known are accepted: the resource of a definition of the user's, or words of an effect.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from kubeskew.apimachinery.faults.fault import PLUGIN_CALLS, VERBS, plurals
from kubeskew.apimachinery.faults.syntax import EVENTS, KINDS_OF_COMPONENTS
from kubeskew.apimachinery.known_bugs import KnownBug, KnownBugs, known_bugs
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import Version, is_between
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.invariants.findings import (
    DEFECT,
    FINDINGS,
    KNOWN,
    UPSTREAM,
    KnownFinding,
    read_findings,
)
from kubeskew.conformance.scenario import ExpectedFailure
from kubeskew.simulation.faults.plan import Kind

_NEAR = 0.8  # ratio of difflib from which on a word counts as misspelt
_COMPONENT = re.compile(r"(?P<kind>[a-z-]+)(?:-\d+)?(?:/[^\s:]*)?(?:: ?(?P<call>.*))?")
_EVENT = re.compile(r"(?P<what>\S+) event of (?P<resource>[^\s,/]*)")
_REQUEST = re.compile(r"(?P<what>any(?= write| verb)|[^\s,]+)(?: (?:write |verb )?(?P<resource>[^\s,/]*))?")
UNKNOWN = "unknown"
_BUG = "k8s-"  # begins the ids of known bugs


def check_fault(text: str, where: str) -> None:
    """Raises ScenarioError unless there are faults of this kind whose line may have these words."""
    kind, _, words = text.partition(": ")
    _check_kind(kind, where)
    component = _COMPONENT.fullmatch(words)
    if component:
        _check(component["kind"], (*KINDS_OF_COMPONENTS, *VERBS), "component or verb", where)
    call = (component["call"] or "") if component else words
    if event := _EVENT.match(call):
        _check(event["what"], EVENTS, "event", where)
        _check_resource(event["resource"], where)
    elif request := _REQUEST.match(call):
        for verb in request["what"].split("/"):
            _check(verb, (*VERBS, *PLUGIN_CALLS), "verb", where)
        _check_resource(request["resource"] or "", where)


def _check_kind(kind: str, where: str) -> None:
    """Raises ScenarioError unless there are faults of this kind."""
    known = [each.value for each in Kind]
    if kind not in known:
        hint = did_you_mean(kind, known)
        raise ScenarioError(f"{where}: there is no kind of fault {kind}; there are {', '.join(known)}{hint}")


def _check_resource(name: str, where: str) -> None:
    """A resource of another group, with its group in its name, is not checked."""
    if "." not in name:
        _check(name, plurals(), "resource", where)


def _check(word: str, known: Collection[str], what: str, where: str) -> None:
    near = get_close_matches(word, sorted(known), n=1, cutoff=_NEAR)
    if word not in known and near:
        raise ScenarioError(f"{where}: there is no {what} {word}; did you mean {near[0]}?")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts of a run that entries are compared with: the faults that fired, by kind and each in a line, the
    versions of components, and the known bugs that are switched."""

    faults: Mapping[str, Sequence[str]]
    versions: Sequence[Version]
    bugs: Mapping[str, bool]

    def has(self, bug: KnownBug) -> bool:
        return any(KnownBugs(version, self.bugs).present(bug.id) for version in self.versions)

    def fired(self, fault: str) -> bool:
        """An entry names a fault by its kind, or by words of its line."""
        kind, _, words = fault.partition(": ")
        return any(words in line for line in self.faults.get(kind, ()))


def _fits(
    entry: KnownFinding, invariant: str, message: str, run: Circumstances, others: Collection[str]
) -> bool:
    """`others` are the entries of the run's other findings."""
    bug = known_bugs().get(f"{_BUG}{entry.class_.removeprefix(KNOWN)}")
    if bug is not None and bug.switch and not run.has(bug):
        return False
    if invariant != entry.invariant or not entry.message.search(message):
        return False
    if entry.faults and not any(run.fired(fault) for fault in entry.faults):
        return False
    if entry.companions and not any(name in others for name in entry.companions):
        return False
    low, high = entry.minors or (None, None)
    return entry.minors is None or any(is_between(version.minor, low, high) for version in run.versions)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a finding; of one that is known, the entry's id, the cause, and the source."""

    class_: str
    entry: str = ""
    reason: str = ""
    source: str = ""

    @property
    def fails(self) -> bool:
        """Somebody has to look at a finding that is a defect of ours or unknown."""
        return self.class_ in (DEFECT, UNKNOWN)


def classify(
    entries: Sequence[KnownFinding], found: Sequence[tuple[str, str]], run: Circumstances
) -> list[Verdict]:
    """Each pair of invariant and message gets the class of the first entry that fits; `unknown` if none
    does."""
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
    if mark.finding is not None:
        return Verdict(mark.finding.class_, mark.finding.id, mark.reason, mark.source)
    if mark.bug:
        return Verdict(f"{KNOWN}{mark.bug.removeprefix(_BUG)}", "", mark.reason, mark.source)
    return Verdict(UPSTREAM, "", mark.reason, mark.source)


def read_entries(path: Path = FINDINGS) -> list[KnownFinding]:
    """Entries keep the file's order. Raises ScenarioError with the place of a mistake."""
    entries = read_findings(path)
    for index, entry in enumerate(entries):
        for fault in entry.faults:
            check_fault(fault, f"{path}: findings[{index}]: faults")
    return entries

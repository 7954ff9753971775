"""Classes findings by what is known of them: `conformance/findings.yaml`, or a file of the user's.

    findings:
    - id: quota-from-stale-cache       names the entry
      invariant: I09                   I01 … I23, `assertion` of a scenario's step, `exception` in a component
      message: 'says that .* is used'  a regular expression, searched in the finding's message
      class: upstream                  defect | upstream | known:ID, the number of an issue or pull request;
                                     one that kubeskew has (`kubeskew bugs`) only where a component has it
      reason: ...                      why it comes about, in a sentence or two
      source: https://...              where that can be read of
      faults: [lost-answer]              only if faults of these kinds were among those that fired; optional
      versions: "1.34..1.36"           only if a component of the cell runs at one of these minors; optional

The first entry that fits decides. What no entry fits is `unknown`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubeskew.conformance
from kubeskew.apimachinery.known_bugs import KnownBug, KnownBugs, known_bugs
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance import yaml_files
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import check_keys
from kubeskew.simulation.faults.plan import Kind

FINDINGS = Path(kubeskew.conformance.__file__).parent / "findings.yaml"
DEFECT, UPSTREAM, KNOWN, UNKNOWN = "defect", "upstream", "known:", "unknown"
ASSERTION, EXCEPTION = "assertion", "exception"

_INVARIANTS = (*(f"I{number:02}" for number in range(1, 24)), ASSERTION, EXCEPTION)
_REQUIRED = ("id", "invariant", "message", "class", "reason", "source")
_KEYS = (*_REQUIRED, "faults", "versions")
_KNOWN = re.compile(r"known:\S+")
_RANGE = re.compile(r"(1\.\d+)(?:\.\.(1\.\d+))?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of finding that is known, and why it comes about."""

    id: str
    invariant: str
    message: re.Pattern[str]
    class_: str
    reason: str
    source: str
    faults: tuple[str, ...] = ()
    minors: tuple[int, int] | None = None

    def fits(
        self,
        invariant: str,
        message: str,
        faults: Collection[str],
        versions: Sequence[Version],
        bugs: Mapping[str, bool],
    ) -> bool:
        """Returns whether a finding is of this kind, which came about under faults of these kinds."""
        bug = known_bugs().get(f"k8s-{self.class_.removeprefix(KNOWN)}")
        if bug is not None and bug.switch and not _is_there(bug, versions, bugs):
            return False
        if invariant != self.invariant or not self.message.search(message):
            return False
        if any(kind not in faults for kind in self.faults):
            return False
        low, high = self.minors or (0, 0)
        return self.minors is None or any(low <= version.minor <= high for version in versions)


def _is_there(bug: KnownBug, versions: Sequence[Version], bugs: Mapping[str, bool]) -> bool:
    return any(KnownBugs(version, bugs).present(bug.id) for version in versions)


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
    entries: Sequence[Entry],
    invariant: str,
    message: str,
    faults: Collection[str],
    versions: Sequence[Version],
    bugs: Mapping[str, bool],
) -> Verdict:
    """Returns the class that the first entry gives which fits; `unknown` if none does.

    `bugs` are the known ones that are switched.
    """
    for entry in entries:
        if entry.fits(invariant, message, faults, versions, bugs):
            return Verdict(entry.class_, entry.id, entry.reason, entry.source)
    return Verdict(UNKNOWN)


def read_entries(path: Path = FINDINGS) -> list[Entry]:
    """Returns the entries of a file, in its order. Raises ScenarioError that says what is wrong with it."""
    documents = yaml_files.read(path)
    if len(documents) != 1:
        raise ScenarioError(f"{path}: expected one document, found {len(documents)}")
    items = check_keys(documents[0], ("findings",), str(path)).get("findings")
    if not isinstance(items, list):
        raise ScenarioError(f"{path}: findings: expected a list, found {items!r}")
    entries = [_entry(item, f"{path}: findings[{index}]") for index, item in enumerate(items)]
    ids = [entry.id for entry in entries]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ScenarioError(f"{path}: two findings have the id {twice[0]}")
    return entries


def _entry(item: Any, where: str) -> Entry:
    value = check_keys(item, _KEYS, where)
    for key in _REQUIRED:
        if not isinstance(value.get(key), str) or not value[key].strip():
            raise ScenarioError(f"{where}: {key}: expected a text, found {value.get(key)!r}")
    if value["invariant"] not in _INVARIANTS:
        hint = did_you_mean(value["invariant"], _INVARIANTS)
        raise ScenarioError(f"{where}: invariant: there is no invariant {value['invariant']}{hint}")
    found = value["class"]
    if found not in (DEFECT, UPSTREAM) and not _KNOWN.fullmatch(found):
        raise ScenarioError(f"{where}: class: expected defect, upstream or known:ID, found {found!r}")
    return Entry(
        *(value["id"], value["invariant"], _pattern(value["message"], where), found),
        *(value["reason"], value["source"], _kinds(value, where), _minors(value, where)),
    )


def _pattern(text: str, where: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ScenarioError(f"{where}: message: {text!r} is no regular expression: {error}") from error
    if pattern.search(""):
        raise ScenarioError(f"{where}: message: {text!r} fits every message; say what is found")
    return pattern


def _kinds(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    kinds = value.get("faults") or []
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise ScenarioError(f"{where}: faults: expected a list of kinds, found {kinds!r}")
    for kind in kinds:
        check_kind(kind, f"{where}: faults")
    return tuple(kinds)


def check_kind(kind: str, where: str) -> None:
    """Raises ScenarioError unless there are faults of this kind."""
    known = [each.value for each in Kind]
    if kind not in known:
        hint = did_you_mean(kind, known)
        raise ScenarioError(f"{where}: there is no kind of fault {kind}; there are {', '.join(known)}{hint}")


def _minors(value: Mapping[str, Any], where: str) -> tuple[int, int] | None:
    text = value.get("versions")
    if text is None:
        return None
    found = _RANGE.fullmatch(str(text))
    if not found:
        raise ScenarioError(f"{where}: versions: expected such as 1.34 or 1.34..1.36, found {text!r}")
    low, high = found[1], found[2] or found[1]
    try:
        return Version.parse(low).minor, Version.parse(high).minor
    except ValueError as error:
        raise ScenarioError(f"{where}: versions: {error}") from error

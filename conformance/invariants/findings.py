"""Reads known findings: `conformance/findings.yaml`, or a file of the user's.

    findings:
    - id: quota-from-stale-cache       names the entry
      invariant: I09                   I01 … I25, `assertion` of a scenario's step, `exception` in a component
      message: 'says that .* is used'  a regular expression, searched in the finding's message
      class: upstream                  defect | upstream | known:ID, the number of an issue or pull request;
                                     one that kubeskew has (`kubeskew bugs`) only where a component has it
      reason: ...                      why it comes about, in a sentence or two
      source: https://...              where that can be read of
      faults: [lost-answer]            only if a fault of one of these kinds fired; `error: update pods` is
                                     one with this call in its line, `crash: kubelet/` with this component;
                                     optional
      versions: "1.34..1.36"           only if a component of the cell runs at one of these minors; optional
      with: [claim-was-taken-back]     only if a finding of one of these entries is in the same run: this one
                                     follows from it; optional

Explored runs are classed by it (simulation/explore/classes.py), where the last three keys count. A mark of a
scenario names an entry instead of a reason and a source: it then fits the same failures as the entry.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance import grammar
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import check_keys

FINDINGS = Path(__file__).parents[1] / "findings.yaml"
DEFECT, UPSTREAM, KNOWN = "defect", "upstream", "known:"
ASSERTION, EXCEPTION = "assertion", "exception"

_INVARIANTS = (*(f"I{number:02}" for number in range(1, 24)), ASSERTION, EXCEPTION)
_REQUIRED = ("id", "invariant", "message", "class", "reason", "source")
_KEYS = (*_REQUIRED, "faults", "versions", "with")
_KNOWN = re.compile(r"known:\S+")
_RANGE = re.compile(r"(1\.\d+)(?:\.\.(1\.\d+))?")


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A known kind of finding, and its cause."""

    id: str
    invariant: str
    message: re.Pattern[str]
    class_: str
    reason: str
    source: str
    faults: tuple[str, ...] = ()
    minors: tuple[int, int] | None = None
    companions: tuple[str, ...] = ()  # ids of entries

    def fits(self, failure: str) -> bool:
        """The failure reads `I05 bound-is-admitted: …` if it is of an invariant."""
        if self.invariant == ASSERTION:
            return bool(self.message.search(failure))
        title, _, message = failure.partition(": ")
        return title.partition(" ")[0] == self.invariant and bool(self.message.search(message))


@cache
def known_findings() -> Mapping[str, KnownFinding]:
    return {each.id: each for each in read_findings()}


def read_findings(path: Path = FINDINGS) -> list[KnownFinding]:
    """Entries keep the file's order. Raises ScenarioError with the place of a mistake."""
    documents = grammar.read(path)
    if len(documents) != 1:
        raise ScenarioError(f"{path}: expected one document, found {len(documents)}")
    items = check_keys(documents[0], ("findings",), str(path)).get("findings")
    if not isinstance(items, list):
        raise ScenarioError(f"{path}: findings: expected a list, found {items!r}")
    entries = [_finding(item, f"{path}: findings[{index}]") for index, item in enumerate(items)]
    ids = [entry.id for entry in entries]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ScenarioError(f"{path}: two findings have the id {twice[0]}")
    for entry in entries:
        for name in entry.companions:
            if name not in ids:
                raise ScenarioError(
                    f"{path}: {entry.id}: with: no finding has the id {name}{did_you_mean(name, ids)}"
                )
    return entries


def _finding(item: Any, where: str) -> KnownFinding:
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
    return KnownFinding(
        *(value["id"], value["invariant"], _pattern(value["message"], where), found),
        *(value["reason"], value["source"], _texts(value, "faults", where), _minors(value, where)),
        _texts(value, "with", where),
    )


def _pattern(text: str, where: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ScenarioError(f"{where}: message: {text!r} is no regular expression: {error}") from error
    if pattern.search(""):
        raise ScenarioError(f"{where}: message: {text!r} fits every message; say what is found")
    return pattern


def _texts(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    texts = value.get(key) or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        what = "kinds" if key == "faults" else "ids"
        raise ScenarioError(f"{where}: {key}: expected a list of {what}, found {texts!r}")
    return tuple(texts)


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

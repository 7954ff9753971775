"""Reads the header's marks: failures that are expected, and steps that need not be run.

A mark claims one failure of one step. So it has to have a text of that failure, and a source where it can be
read that upstream fails in that way.
"""

import re
from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.known_bugs import KnownBug, check_bugs, known_bugs
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.conformance.chainsaw import expression
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import EXEMPTION_KEYS, EXPECTED_FAILURE_KEYS, check_keys
from kubeskew.conformance.invariants.findings import DEFECT, KnownFinding, known_findings
from kubeskew.conformance.scenario import JUDGED, Exemption, ExpectedFailure, Scenario

# Rows of texts that have nothing in common: an expression that matches all of a row is refused.
_UNRELATED = (
    ("a", "0", "-"),
    ("no Pod at all", "7", "Xyz"),
    ("exit 3: ", "no Pod", "[it was still running]"),
)


def expected_failures(header: Mapping[str, Any], source: str) -> tuple[ExpectedFailure, ...]:
    """Raises ScenarioError for a mark that lacks its failure or its reason."""
    marks = []
    for index, entry in enumerate(_entries(header, "expectedFailures", source)):
        where = f"{source}: expectedFailures[{index}]"
        bug, finding = _bug(entry, where), _finding(entry, where)
        if bug is not None:
            entry = {
                "when": "(`true`)",
                "at": "($version)",
                "reason": bug.title,
                "source": bug.source,
                **entry,
            }
        elif finding is not None:
            entry = {**entry, "reason": finding.reason, "source": finding.source}
        when, steps, reason = _entry(entry, EXPECTED_FAILURE_KEYS, where)
        found, origin, at = entry.get("found"), entry.get("source"), expression(entry.get("at"))
        if (at is None) != (bug is None):
            raise ScenarioError(f"{where}.at: expected, with `bug`, an expression of a release: ($version)")
        if not isinstance(found, str) or not found:
            raise ScenarioError(
                f"{where}: expected `found`: a regular expression that is searched in what the step found"
            )
        if not isinstance(origin, str) or not origin.strip():
            raise ScenarioError(
                f"{where}: expected `source`: the issue or pull request, upstream's file, or the "
                "section of the KEP, where the reason can be read"
            )
        _check_pattern(found, f"{where}.found")
        named = (bug.id if bug else "", at or "", finding)
        marks.append(ExpectedFailure(when, steps, reason, found, origin, *named))
    return tuple(marks)


def _bug(entry: Any, where: str) -> KnownBug | None:
    """Raises ScenarioError if there is no known bug of this name."""
    if not isinstance(entry, Mapping) or "bug" not in entry:
        return None
    name = str(entry["bug"])
    try:
        check_bugs({name: True})
    except ValueError as error:
        raise ScenarioError(f"{where}.bug: {error}") from error
    return known_bugs()[name]


def _finding(entry: Any, where: str) -> KnownFinding | None:
    """The mark names an entry of conformance/findings.yaml. Raises ScenarioError unless the entry is of
    upstream's failures: then the mark has no reason or source of its own."""
    if not isinstance(entry, Mapping) or "finding" not in entry:
        return None
    name, known = str(entry["finding"]), known_findings()
    if name not in known:
        raise ScenarioError(f"{where}.finding: there is no finding {name}{did_you_mean(name, known)}")
    if known[name].class_ == DEFECT:
        raise ScenarioError(f"{where}.finding: {name} is a defect of kubeskew's, no failure of upstream's")
    if both := [key for key in ("bug", "reason", "source") if key in entry]:
        raise ScenarioError(f"{where}.{both[0]}: the finding {name} says why, and where that can be read")
    return known[name]


def exemptions(header: Mapping[str, Any], source: str) -> tuple[Exemption, ...]:
    return tuple(
        Exemption(*_entry(entry, EXEMPTION_KEYS, f"{source}: notRun[{index}]"))
        for index, entry in enumerate(_entries(header, "notRun", source))
    )


def _entries(header: Mapping[str, Any], key: str, source: str) -> list[Any]:
    entries = header.get(key) or []
    if not isinstance(entries, list):
        raise ScenarioError(f"{source}: {key}: expected a list, found {entries!r}")
    return entries


def _entry(entry: Any, keys: tuple[str, ...], where: str) -> tuple[str, tuple[str, ...], str]:
    check_keys(entry, keys, where)
    when, steps, reason = expression(entry.get("when")), entry.get("steps"), entry.get("reason")
    if when is None or not isinstance(reason, str) or not reason or not isinstance(steps, list) or not steps:
        raise ScenarioError(
            f"{where}: expected `when` (an expression in parentheses), `steps` (a list of names) and `reason`"
        )
    return when, tuple(map(str, steps)), reason


def _check_pattern(pattern: str, where: str) -> None:
    """Raises ScenarioError if it is no regular expression, or one that any failure has."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ScenarioError(f"{where}: {pattern!r} is not a regular expression: {error}") from error
    if compiled.search("") or any(all(map(compiled.search, row)) for row in _UNRELATED):
        raise ScenarioError(f"{where}: {pattern!r} is in every text: say what is found in this failure only")


def check_marks(scenario: Scenario, source: str) -> None:
    """Raises ScenarioError if a mark names a step that is not there, or that two steps have the name of.

    A failure may also be of the invariants, which are judged behind all steps: no step has their name.
    """
    names = [step.name for step in scenario.steps]
    if alike := [name for name in JUDGED if name in names]:
        raise ScenarioError(
            f"{source}: a step named {alike[0]} cannot be distinguished from the judgement at the end"
        )
    marks = [("expectedFailures", [mark.steps for mark in scenario.expected_failures])]
    marks += [("notRun", [exemption.steps for exemption in scenario.exemptions])]
    for key, named in marks:
        for index, steps in enumerate(named):
            for name in steps:
                where = f"{source}: {key}[{index}].steps"
                if name in JUDGED and key == "expectedFailures":
                    continue
                if name not in names and not _is_repetition(name, names):
                    raise ScenarioError(f"{where}: there is no step {name}{did_you_mean(name, names)}")
                if names.count(name) > 1:
                    raise ScenarioError(f"{where}: {names.count(name)} steps are named {name}: rename them")


def _is_repetition(name: str, names: list[str]) -> bool:
    """The name of a repetition is `1.34 to 1.35: NAME`."""
    return any(name.endswith(f": {base}") for base in names)

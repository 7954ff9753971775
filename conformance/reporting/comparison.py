"""Compares two reports: cells and steps with other outcomes, and those that are in one report only."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.resumption import FORMAT_VERSION, REPORT

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell, or a step of it, has another outcome; `absent` where a report does not have it.

    The failures are those of each report, empty if it passed.
    """

    cell: str
    step: str  # empty for the cell as a whole
    old: str
    new: str
    old_failure: str = ""
    new_failure: str = ""

    def __str__(self) -> str:
        place = f"{self.cell}: {self.step}" if self.step else self.cell
        return f"{place}: {self.old} → {self.new}"


def read(directory: Path) -> dict[str, Any]:
    """Raises ScenarioError if there is no report that can be read."""
    path = directory / REPORT
    remedy = "name a directory that `kubeskew run` or `matrix` wrote with --report"
    try:
        report = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise ScenarioError(f"there is no {path}: {remedy}") from None
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: this report is damaged ({error}): {remedy}") from error
    if not isinstance(report, dict) or not isinstance(report.get("cells"), list):
        raise ScenarioError(f"{path}: this is no report of cells: {remedy}")
    if report.get("formatVersion") != FORMAT_VERSION:
        raise ScenarioError(
            f"{path}: its formatVersion is {report.get('formatVersion')!r}, this kubeskew reads "
            f"{FORMAT_VERSION}: run those cells again with --report"
        )
    return report


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Differences come in the order of the newer report's cells.

    Raises ScenarioError if no cell is in both: then they are of different runs.
    """
    before, after = ({cell["name"]: cell for cell in report["cells"]} for report in (old, new))
    if not before.keys() & after.keys():
        raise ScenarioError(
            f"these are reports of different runs: {old.get('title')!r} and {new.get('title')!r} "
            "have no cell in common"
        )
    found: list[Difference] = []
    for name in dict.fromkeys([*after, *before]):
        found += _cell(name, before.get(name), after.get(name))
    return found


def _cell(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[Difference]:
    if old is None or new is None or old["result"] != new["result"]:
        yield Difference(name, "", _result(old), _result(new), _failure(old), _failure(new))
    if old is None or new is None:
        return
    before, after = _steps(old["steps"]), _steps(new["steps"])
    for key in dict.fromkeys([*after, *before]):
        one, other = before.get(key), after.get(key)
        if _verdict(one) != _verdict(other):
            yield Difference(name, key[0], _result(one), _result(other), _why(one), _why(other))


def _steps(steps: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Steps of one name are numbered in their order."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    for step in steps:
        found[step["name"], sum(name == step["name"] for name, _ in found)] = step
    return found


def _verdict(step: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return () if step is None else (step["result"], step["red"])


def _result(value: Mapping[str, Any] | None) -> str:
    return ABSENT if value is None else str(value["result"])


def _failure(cell: Mapping[str, Any] | None) -> str:
    return str(cell["failure"]) if cell else ""


def _why(step: Mapping[str, Any] | None) -> str:
    return str(step["why"]) if step else ""

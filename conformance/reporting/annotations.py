"""Writes failures of a report as workflow commands of GitHub Actions, which shows them at lines of files.

The syntax is that of docs.github.com, "Workflow commands for GitHub Actions"; characters are escaped as in
actions/toolkit, packages/core/src/command.ts. GitHub shows ten errors of a job's step, so cells that fail at
one step of a file are one of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kubeskew.conformance.errors import ScenarioError

_SHOWN = 20  # names of cells
_TEST = "Test"


class Place(NamedTuple):
    """The place where cells failed: the scenario and its file, and the step; None for a cell without one."""

    scenario: str
    file: str | None
    step: str | None


def annotations(report: Mapping[str, Any]) -> list[str]:
    """Each line is for a step at which cells did not do as their file says, in the order of cells."""
    places: dict[Place, list[Mapping[str, Any]]] = {}
    for cell in report["cells"]:
        if not cell["passed"]:
            places.setdefault(_place(cell), []).append(cell)
    return [_line(place, cells) for place, cells in places.items()]


def error(message: str, properties: Mapping[str, str]) -> str:
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::error {shown}::{_data(message)}"


def _place(cell: Mapping[str, Any]) -> Place:
    """A step that was not run is the place only if no other step failed."""
    red = [step for step in cell["steps"] if step["red"]] if not cell["error"] else []
    red.sort(key=lambda step: step["result"] == "notRun")
    return Place(cell["scenario"], cell["file"], red[0]["name"] if red else None)


def _line(place: Place, cells: Sequence[Mapping[str, Any]]) -> str:
    names = [cell["name"] for cell in cells]
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    where = {}
    if place.file:
        where = {"file": place.file, "line": str(_line_of(Path(place.file), place.step))}
    title = place.scenario + (f": {place.step}" if place.step else "")
    return error(f"{shown}\n{cells[0]['failure']}", {**where, "title": title})


def _line_of(path: Path, step: str | None) -> int:
    """Line 1 stands for a step that is not found, and for a file that is not here."""
    try:
        lines = step_lines(path.read_text())
    except (OSError, ScenarioError):
        return 1
    # a repeated step is called `LABEL: NAME`
    return next((line for name, line in lines.items() if step and f": {step}".endswith(f": {name}")), 1)


def step_lines(text: str) -> dict[str, int]:
    """Lines count from 1. Raises ScenarioError for a text that is no YAML."""
    try:
        documents = [*yaml.compose_all(text, yaml.SafeLoader)]
    except yaml.YAMLError as error:
        raise ScenarioError(str(error)) from error
    tests = [each for each in documents if _text(_value(each, "kind")) == _TEST]
    steps = [_value(_value(test, "spec"), "steps") for test in tests]
    found: dict[str, int] = {}
    for each in steps:
        for step in each.value if isinstance(each, yaml.SequenceNode) else ():
            found[_text(_value(step, "name"))] = step.start_mark.line + 1
    return found


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

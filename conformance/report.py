"""Reports of a run: a page to read, JSON to process, JUnit for test systems.

A report has the commands that repeat the run and its cells. Of a dimension of subsets it has the members that
a step cannot do without: with all 2^4 ways to leave components out, a step that fails without the scheduler
fails in eight cells, and the report has `{scheduler}`. Cells are as `report.json` has them, so that reports
can be merged.
"""

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.conformance.reporting import junit, page
from kubeskew.conformance.results import (
    FAILED,
    NOT_RUN,
    OUTCOMES,
    CellResult,
    OperationResult,
    StepResult,
    StepVerdict,
)
from kubeskew.conformance.resumption import FORMAT_VERSION, REPORT
from kubeskew.conformance.scenario import Scenario, value_name


@dataclass(frozen=True, slots=True)
class Subsets:
    """A dimension of a scenario whose values are all subsets of some members."""

    scenario: str
    name: str  # of the dimension
    values: int  # their number


@dataclass(frozen=True, slots=True)
class FailingSets:
    """The minimal sets of members without which a step fails; it holds without any part of such a set.

    `cells` is the name of the cells compared, with the dimension's value left open.
    """

    cells: str
    step: str
    without: Sequence[tuple[str, ...]]


def subsets_of(scenarios: Iterable[Scenario]) -> list[Subsets]:
    return [
        Subsets(scenario.name, dimension.name, len(dimension.values))
        for scenario in scenarios
        for dimension in scenario.parameters
        if dimension.members
    ]


def failing_sets(dimensions: Iterable[Subsets], cells: Sequence[Mapping[str, Any]]) -> list[FailingSets]:
    """One entry for every dimension of subsets, group of cells that differ in it alone, and step that fails
    in some.

    Groups of which not all ran are left out, since nothing in them is known to be minimal, and so are steps
    that some cell did not run.
    """
    return [
        FailingSets(name, step["name"], minimal)
        for dimension in dimensions
        for name, group in _groups(dimension, cells).items()
        if len(group) == dimension.values
        for step in group[0]["steps"]
        if all(_was_run(cell, step["name"]) for cell in group)
        if (minimal := list(_minimal(_failing(group, step["name"], dimension))))
    ]


def _groups(dimension: Subsets, cells: Sequence[Mapping[str, Any]]) -> Mapping[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell["scenario"] == dimension.scenario and not cell["error"]:
            values = {**cell["parameters"], dimension.name: "*"}
            name = "/".join([dimension.scenario, *map(value_name, values.values())])
            groups.setdefault(name, []).append(cell)
    return groups


def _failing(group: Sequence[Mapping[str, Any]], step: str, dimension: Subsets) -> list[tuple[str, ...]]:
    return [
        tuple(cell["parameters"][dimension.name]["out"])
        for cell in group
        if any(each["name"] == step and _failed(each) for each in cell["steps"])
    ]


def _failed(step: Mapping[str, Any]) -> bool:
    """Failures as upstream's count."""
    return any(operation["result"] == FAILED for operation in step["operations"])


def _was_run(cell: Mapping[str, Any], step: str) -> bool:
    return any(other["name"] == step and other["result"] != NOT_RUN for other in cell["steps"])


def _minimal(sets: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for each in sorted(sets, key=lambda each: (len(each), each)):
        if not any(set(other) < set(each) for other in sets):
            yield each


@dataclass(frozen=True, slots=True)
class Repeating:
    """The command that repeats the run; that of a cell also needs the files of scenarios, and flags."""

    command: Sequence[str]
    places: Mapping[str, str]
    flags: Sequence[str] = ()

    def run(self) -> str:
        return shlex.join([*self.command, *self.flags])

    def cell(self, cell: CellResult) -> str:
        place = self.places.get(cell.scenario, cell.scenario)
        words = [*self.command[:2], place, "--only", cell.name]
        words += [] if cell.seed is None else ["--simulate", "--seed", str(cell.seed)]
        return shlex.join([*words, *self.flags])

    def file(self, cell: CellResult) -> str | None:
        """A file below the working directory is relative to it; a bundled one is None."""
        place = self.places.get(cell.scenario)
        if place is None:
            return None
        path, here = Path(place), Path.cwd()
        return str(path.relative_to(here) if path.is_relative_to(here) else path)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a whole run; the reports of all parts can be merged into one."""

    number: int
    of: int
    command: str  # of the whole run
    build: str  # the digest of kubeskew's own files
    cells: Sequence[str]  # all of them, in order
    scenarios: Mapping[str, str]  # the digest of what each is made of, by name


@dataclass(frozen=True, slots=True)
class Run:
    """All cells of a run, and its beginning; `subsets` are dimensions whose failing sets are reported."""

    title: str
    started: datetime
    cells: Sequence[CellResult]
    subsets: Sequence[Subsets] = ()
    repeating: Repeating | None = None
    part: Part | None = None


def write(run: Run, directory: Path) -> None:
    write_report(as_json(run), directory)


def write_report(report: Mapping[str, Any], directory: Path) -> None:
    """Writes `index.html`, `report.json`, `junit.xml`; earlier ones stay until all three are written."""
    files = {
        REPORT: (json.dumps(report, indent=1) + "\n").encode(),
        "junit.xml": junit.as_junit(report),
        "index.html": page.as_html(report).encode(),
    }
    directory.mkdir(parents=True, exist_ok=True)
    new = {name: directory / f".{name}.{os.getpid()}" for name in files}
    try:
        for name, content in files.items():
            with new[name].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name, path in new.items():
            path.replace(directory / name)
    finally:
        for path in new.values():
            path.unlink(missing_ok=True)


def as_json(run: Run) -> dict[str, Any]:
    cells = [_cell_json(cell, run.repeating) for cell in run.cells]
    emulated = [cell.side_by_side.emulated for cell in run.cells if cell.side_by_side]
    seconds = sum(cell.seconds for cell in (*run.cells, *emulated))
    head = Head(run.title, timestamp(run.started), run.repeating.run() if run.repeating else None, seconds)
    return whole(head, cells, run.subsets, run.part)


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a report, before its cells."""

    title: str
    started: str
    command: str | None
    seconds: float  # of all cells


def whole(
    head: Head, cells: Sequence[Mapping[str, Any]], subsets: Sequence[Subsets], part: Part | None = None
) -> dict[str, Any]:
    results = Counter(cell["result"] for cell in cells)
    steps = Counter(step["result"] for cell in cells for step in cell["steps"])
    lanes = [cell["sideBySide"] for cell in cells if cell["sideBySide"]]
    return {
        "formatVersion": FORMAT_VERSION,
        "title": head.title,
        "started": head.started,
        **{outcome: results[outcome] for outcome in OUTCOMES},
        "steps": {outcome: steps[outcome] for outcome in OUTCOMES},
        "sideBySide": {
            "cells": len(lanes),
            "differing": sum(bool(each["differences"]) for each in lanes),
            "emulatedFailed": sum(each["emulated"]["result"] == FAILED for each in lanes),
        }
        if lanes
        else None,
        "seconds": round(head.seconds, 3),
        "failingSets": [asdict(each) for each in failing_sets(subsets, cells)],
        "command": head.command,
        "shard": part and {**asdict(part), "subsets": [asdict(each) for each in subsets]},
        "cells": cells,
    }


def _cell_json(cell: CellResult, repeating: Repeating | None) -> dict[str, Any]:
    return {
        "name": cell.name,
        "scenario": cell.scenario,
        "file": repeating.file(cell) if repeating else None,
        "parameters": cell.parameters,
        "result": cell.outcome,
        "passed": cell.passed,
        "failure": cell.failure,
        "error": cell.error,
        "seconds": round(cell.seconds, 3),
        "stepsRun": cell.steps_run,
        "stepsNotRun": cell.steps_not_run,
        "digest": cell.digest or None,
        "seed": cell.seed,
        "logHash": cell.log_hash or (cell.record.digest if cell.record else None),
        "logHashOf": "log" if cell.log_hash else "scrubbed log" if cell.record else None,
        "expectedFailures": {
            step: "; ".join(dict.fromkeys(mark.reason for mark in marks))
            for step, marks in cell.expected_failures.items()
        },
        "observations": cell.observations,
        "baseline": cell.baseline,
        "programs": {name: list(programs) for name, programs in cell.programs.items()},
        "sideBySide": _lanes_json(cell, repeating),
        "command": repeating.cell(cell) if repeating else None,
        "began": cell.began,
        "ended": cell.ended,
        "divergence": asdict(cell.divergence) if cell.divergence else None,
        "components": [asdict(each) for each in cell.components],
        "branches": {name: [asdict(each) for each in runs] for name, runs in cell.branches.items()},
        "pods": [asdict(each) for each in cell.pods],
        "objects": [asdict(each) for each in cell.objects],
        "calls": [asdict(each) for each in cell.calls],
        "logs": dict(cell.logs),
        "faults": [asdict(moment) for moment in cell.faults],
        "steps": [_step_json(step, verdict) for step, verdict in cell.verdicts()],
    }


def _lanes_json(cell: CellResult, repeating: Repeating | None) -> dict[str, Any] | None:
    """The cell itself is the lane with real programs."""
    lanes = cell.side_by_side
    if lanes is None:
        return None
    differences = [asdict(each) for each in lanes.differences]
    return {"emulated": _cell_json(lanes.emulated, repeating), "differences": differences}


def _step_json(step: StepResult, verdict: StepVerdict) -> dict[str, Any]:
    return {
        "name": step.name,
        "result": verdict.outcome,
        "red": verdict.red,
        "why": verdict.why,
        "notRun": step.not_run,
        "impossible": step.impossible,
        "behind": step.behind,
        "reason": verdict.reason,
        "source": verdict.source,
        "seconds": round(step.seconds, 3),
        "operationsNotRun": step.operations_not_run,
        "operations": [_operation_json(operation) for operation in step.operations],
        "events": step.events,
        "revisions": step.revisions,
        "since": step.since,
        "until": step.until,
    }


def _operation_json(operation: OperationResult) -> dict[str, Any]:
    return {
        "title": operation.title,
        "kind": operation.kind,
        "about": operation.about,
        "block": operation.block,
        "result": operation.outcome,
        "expected": operation.expected,
        "found": operation.found,
        "shown": operation.shown,
        "notRun": operation.not_run,
        "impossible": operation.impossible,
        "value": operation.value,
        "broken": operation.broken,
        "seconds": round(operation.seconds, 3),
    }


def as_junit(run: Run) -> bytes:
    return junit.as_junit(as_json(run))


def as_html(run: Run) -> str:
    """The page needs no other files."""
    return page.as_html(as_json(run))

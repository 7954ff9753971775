"""Reports of a run: a page to read, JSON to process, JUnit for test systems."""

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.conformance.failing_sets import FailingSets
from kubeskew.conformance.reporting import page
from kubeskew.conformance.reporting.repeating import Repeating
from kubeskew.conformance.results import (
    EXPECTED,
    FAILED,
    NOT_RUN,
    OUTCOMES,
    CellResult,
    OperationResult,
    StepResult,
    StepVerdict,
)
from kubeskew.conformance.resuming import FORMAT_VERSION, REPORT


@dataclass(frozen=True, slots=True)
class Run:
    """All cells of a run, and when it began."""

    title: str
    started: datetime
    cells: Sequence[CellResult]
    failing_sets: Sequence[FailingSets] = ()
    repeating: Repeating | None = None

    def count(self, outcome: str) -> int:
        """Counts the cells that passed, failed, failed as upstream does, or have no step that was run."""
        return sum(cell.outcome == outcome for cell in self.cells)

    def count_steps(self, outcome: str) -> int:
        """Counts the steps of all cells by their outcome."""
        return sum(verdict.outcome == outcome for cell in self.cells for _, verdict in cell.verdicts())

    @property
    def seconds(self) -> float:
        return sum(cell.seconds for cell in self.cells)


def write(run: Run, directory: Path) -> None:
    """Write `index.html`, `report.json` and `junit.xml`; those of before stay until all three are written."""
    files = {
        REPORT: (json.dumps(as_json(run), indent=1) + "\n").encode(),
        "junit.xml": as_junit(run),
        "index.html": as_html(run).encode(),
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
    """The whole run; cells, steps and operations in order."""
    return {
        "formatVersion": FORMAT_VERSION,
        "title": run.title,
        "started": timestamp(run.started),
        **{outcome: run.count(outcome) for outcome in OUTCOMES},
        "steps": {outcome: run.count_steps(outcome) for outcome in OUTCOMES},
        "seconds": round(run.seconds, 3),
        "failingSets": [asdict(each) for each in run.failing_sets],
        "command": run.repeating.run() if run.repeating else None,
        "cells": [_cell_json(cell, run.repeating) for cell in run.cells],
    }


def _cell_json(cell: CellResult, repeating: Repeating | None) -> dict[str, Any]:
    return {
        "name": cell.name,
        "scenario": cell.scenario,
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
        "command": repeating.cell(cell) if repeating else None,
        "began": cell.began,
        "ended": cell.ended,
        "divergence": asdict(cell.divergence) if cell.divergence else None,
        "components": [asdict(each) for each in cell.components],
        "pods": [asdict(each) for each in cell.pods],
        "objects": [asdict(each) for each in cell.objects],
        "calls": [asdict(each) for each in cell.calls],
        "logs": dict(cell.logs),
        "faults": [asdict(moment) for moment in cell.faults],
        "steps": [_step_json(step, verdict) for step, verdict in cell.verdicts()],
    }


def _step_json(step: StepResult, verdict: StepVerdict) -> dict[str, Any]:
    return {
        "name": step.name,
        "result": verdict.outcome,
        "red": verdict.red,
        "why": verdict.why,
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
        "broken": operation.broken,
        "seconds": round(operation.seconds, 3),
    }


def as_junit(run: Run) -> bytes:
    """One test case per cell; a cell that failed says where, what was expected and what was found.

    One that fails as upstream does is a test case that passed, and says so in its output, as it says of steps
    that were not run. A cell without a step that could be run is a skipped test case.
    """
    suite = ET.Element(
        "testsuite",
        name=_printable(run.title),
        tests=str(len(run.cells)),
        failures=str(run.count(FAILED)),
        errors="0",
        skipped=str(run.count(NOT_RUN)),
        time=f"{run.seconds:.3f}",
        timestamp=timestamp(run.started),
    )
    for cell in run.cells:
        scenario, name = _printable(cell.scenario), _printable(cell.name)
        case = ET.SubElement(suite, "testcase", classname=scenario, name=name, time=f"{cell.seconds:.3f}")
        if cell.outcome == FAILED:
            failure = ET.SubElement(case, "failure", message=_printable(cell.failure))
            failure.text = _printable(_evidence(cell))
        elif cell.outcome == NOT_RUN:
            ET.SubElement(case, "skipped", message=_printable(remarks(cell)[0]))
        if remarks(cell):
            ET.SubElement(case, "system-out").text = _printable("\n".join(remarks(cell)))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def _printable(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(each if each in "\n\t" or each.isprintable() else "\ufffd" for each in text)


def remarks(cell: CellResult) -> list[str]:
    """Returns a line for each step that failed as upstream does, and for each that was not run."""
    lines = []
    for step, verdict in cell.verdicts():
        if verdict.outcome == EXPECTED:
            left = (
                f"; {step.operations_not_run} operations behind it not run" if step.operations_not_run else ""
            )
            lines.append(f"{step.name}: fails as upstream: {verdict.reason} ({verdict.source}){left}")
        elif verdict.outcome == NOT_RUN:
            lines.append(f"{step.name}: not run: {': '.join(filter(None, (verdict.why, verdict.reason)))}")
    return lines


def _evidence(cell: CellResult) -> str:
    """The steps, and the events of the one that failed."""
    lines = [f"{step.name}: {verdict.outcome}" for step, verdict in cell.verdicts()]
    for step in cell.steps:
        lines += [json.dumps(event) for event in step.events]
    return "\n".join([cell.failure, *lines])


def as_html(run: Run) -> str:
    """Returns one page without anything from elsewhere."""
    return page.as_html(as_json(run))

"""Reports of a run: a page to read, JSON to process, JUnit for test systems."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.conformance.failing_sets import FailingSets
from kubeskew.conformance.results import CellResult, StepResult


@dataclass(frozen=True, slots=True)
class Run:
    """All cells of a run, and when it began."""

    title: str
    started: datetime
    cells: Sequence[CellResult]
    failing_sets: Sequence[FailingSets] = ()

    def count(self, outcome: str) -> int:
        """Counts the cells that passed, failed, or failed as expected."""
        return sum(cell.outcome == outcome for cell in self.cells)

    @property
    def seconds(self) -> float:
        return sum(cell.seconds for cell in self.cells)


def write(run: Run, directory: Path) -> None:
    """Write `index.html`, `report.json` and `junit.xml`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.json").write_text(json.dumps(as_json(run), indent=1) + "\n")
    (directory / "junit.xml").write_bytes(as_junit(run))
    (directory / "index.html").write_text(as_html(run))


def as_json(run: Run) -> dict[str, Any]:
    """The whole run; cells, steps and operations in order."""
    return {
        "title": run.title,
        "started": timestamp(run.started),
        **{outcome: run.count(outcome) for outcome in ("passed", "expected", "failed")},
        "seconds": round(run.seconds, 3),
        "failingSets": [asdict(each) for each in run.failing_sets],
        "cells": [_cell_json(cell) for cell in run.cells],
    }


def _cell_json(cell: CellResult) -> dict[str, Any]:
    return {
        "name": cell.name,
        "scenario": cell.scenario,
        "parameters": cell.parameters,
        "result": cell.outcome,
        "passed": cell.passed,
        "failure": cell.failure,
        "error": cell.error,
        "seconds": round(cell.seconds, 3),
        "expectedFailures": {step: each.reason for step, each in cell.expected_failures.items()},
        "observations": cell.observations,
        "baseline": cell.baseline,
        "divergence": asdict(cell.divergence) if cell.divergence else None,
        "components": [asdict(each) for each in cell.components],
        "pods": [asdict(each) for each in cell.pods],
        "steps": [_step_json(step) for step in cell.steps],
    }


def _step_json(step: StepResult) -> dict[str, Any]:
    return {**asdict(step), "result": step.outcome, "seconds": round(step.seconds, 3)}


def as_junit(run: Run) -> bytes:
    """One test case per cell; a cell that failed says where, what was expected and what was found.

    One that fails as upstream does is a test case that passed, and says so in its output.
    """
    suite = ET.Element(
        "testsuite",
        name=_printable(run.title),
        tests=str(len(run.cells)),
        failures=str(run.count("failed")),
        errors="0",
        skipped="0",
        time=f"{run.seconds:.3f}",
        timestamp=timestamp(run.started),
    )
    for cell in run.cells:
        scenario, name = _printable(cell.scenario), _printable(cell.name)
        case = ET.SubElement(suite, "testcase", classname=scenario, name=name, time=f"{cell.seconds:.3f}")
        if cell.outcome == "failed":
            failure = ET.SubElement(case, "failure", message=_printable(cell.failure))
            failure.text = _printable(_evidence(cell))
        elif cell.outcome == "expected":
            reasons = [
                f"{step}: fails as upstream: {each.reason}" for step, each in cell.expected_failures.items()
            ]
            ET.SubElement(case, "system-out").text = _printable("\n".join(reasons))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def _printable(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(each if each in "\n\t" or each.isprintable() else "\ufffd" for each in text)


def _evidence(cell: CellResult) -> str:
    """The steps, and the events of the one that failed."""
    lines = [f"{step.name}: {step.outcome}" for step in cell.steps]
    for step in cell.steps:
        lines += [json.dumps(event) for event in step.events]
    return "\n".join([cell.failure, *lines])


def as_html(run: Run) -> str:
    """One page without anything from elsewhere."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("kubeskew.conformance"), autoescape=True, trim_blocks=True)
    environment.filters["span"] = span
    return environment.get_template("report.html").render(run=run, started=timestamp(run.started))


def span(cell: CellResult, since: str, until: str) -> tuple[float, float]:
    """Returns the place of a stretch of time in the cell's whole, in percent: left edge and width."""
    times = (cell.began, cell.ended, since, until or cell.ended)
    began, ended, left, right = map(datetime.fromisoformat, times)
    whole = (ended - began) / timedelta(seconds=1) or 1.0
    start, width = ((moment / timedelta(seconds=1)) * 100 / whole for moment in (left - began, right - left))
    return round(start, 2), round(max(width, 0.4), 2)

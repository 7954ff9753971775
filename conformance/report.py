"""Reports of a run: a page to read, JSON to process, JUnit for test systems."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from apimachinery.clock import timestamp
from conformance.runner import CellResult, StepResult


@dataclass(frozen=True, slots=True)
class Run:
    """All cells of a run, and when it began."""

    title: str
    started: datetime
    cells: Sequence[CellResult]

    @property
    def failed(self) -> int:
        return sum(not cell.passed for cell in self.cells)

    @property
    def passed(self) -> int:
        return len(self.cells) - self.failed

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
    cells = [
        {
            **{key: value for key, value in asdict(cell).items() if key != "steps"},
            "passed": cell.passed,
            "failure": cell.failure,
            "steps": [_step_json(step) for step in cell.steps],
        }
        for cell in run.cells
    ]
    return {
        "title": run.title,
        "started": timestamp(run.started),
        "passed": run.passed,
        "failed": run.failed,
        "seconds": round(run.seconds, 3),
        "cells": cells,
    }


def _step_json(step: StepResult) -> dict[str, Any]:
    result = "skipped" if step.skipped else "failed" if step.failed else "passed"
    return {**asdict(step), "result": result, "seconds": round(step.seconds, 3)}


def as_junit(run: Run) -> bytes:
    """One test case per cell; a cell that failed says where, what was expected and what was found."""
    suite = ET.Element(
        "testsuite",
        name=run.title,
        tests=str(len(run.cells)),
        failures=str(run.failed),
        errors="0",
        skipped="0",
        time=f"{run.seconds:.3f}",
        timestamp=timestamp(run.started),
    )
    for cell in run.cells:
        case = ET.SubElement(
            suite, "testcase", classname=cell.scenario, name=cell.name, time=f"{cell.seconds:.3f}"
        )
        if not cell.passed:
            failure = ET.SubElement(case, "failure", message=cell.failure)
            failure.text = _evidence(cell)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def _evidence(cell: CellResult) -> str:
    """The steps, and the events of the one that failed."""
    lines = [f"{step.name}: {_step_json(step)['result']}" for step in cell.steps]
    for step in cell.steps:
        lines += [json.dumps(event) for event in step.events]
    return "\n".join([cell.failure, *lines])


def as_html(run: Run) -> str:
    """One page without anything from elsewhere."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("conformance"), autoescape=True, trim_blocks=True)
    return environment.get_template("report.html").render(run=run, started=timestamp(run.started))

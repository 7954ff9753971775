"""Writes a report, as `report.json` has it, as JUnit's XML, for test systems."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from kubeskew.conformance.reporting.lanes import differing_lines, is_unlike
from kubeskew.conformance.results import EXPECTED, FAILED, NOT_RUN


def as_junit(report: Mapping[str, Any]) -> bytes:
    """Each cell is a test case; a cell that failed has the place, the expectation and the finding.

    One that fails as upstream does is a test case that passed, with the failure in its output, next to the
    steps that were not run. A cell without a step that could be run is a skipped test case.
    """
    suite = ET.Element(
        "testsuite",
        name=_printable(report["title"]),
        tests=str(len(report["cells"])),
        failures=str(sum(is_unlike(cell) for cell in report["cells"])),
        errors="0",
        skipped=str(sum(cell["result"] == NOT_RUN and not is_unlike(cell) for cell in report["cells"])),
        time=f"{report['seconds']:.3f}",
        timestamp=report["started"],
    )
    for cell in report["cells"]:
        scenario, name = _printable(cell["scenario"]), _printable(cell["name"])
        case = ET.SubElement(suite, "testcase", classname=scenario, name=name, time=f"{cell['seconds']:.3f}")
        if cell.get("file"):
            case.set("file", _printable(cell["file"]))
        lines = remarks(cell)
        if cell["result"] == FAILED:
            failure = ET.SubElement(case, "failure", message=_printable(cell["failure"]))
            failure.text = _printable(_evidence(cell))
        elif is_unlike(cell):
            found = differing_lines(cell)
            failure = ET.SubElement(case, "failure", message=_printable(found[0]))
            failure.text = _printable("\n".join(found))
        elif cell["result"] == NOT_RUN:
            ET.SubElement(case, "skipped", message=_printable(lines[0]))
        if lines:
            ET.SubElement(case, "system-out").text = _printable("\n".join(lines))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def _printable(text: str) -> str:
    """XML cannot hold control characters."""
    return "".join(each if each in "\n\t" or each.isprintable() else "\ufffd" for each in text)


def remarks(cell: Mapping[str, Any]) -> list[str]:
    lines = []
    for step in cell["steps"]:
        if step["result"] == EXPECTED:
            count = step["operationsNotRun"]
            left = f"; {count} operations behind it not run" if count else ""
            lines.append(f"{step['name']}: fails as upstream: {step['reason']} ({step['source']}){left}")
        elif step["result"] == NOT_RUN:
            lines.append(f"{step['name']}: not run: {': '.join(filter(None, (step['why'], step['reason'])))}")
    return lines


def _evidence(cell: Mapping[str, Any]) -> str:
    lines = [f"{step['name']}: {step['result']}" for step in cell["steps"]]
    for step in cell["steps"]:
        lines += [json.dumps(event) for event in step["events"]]
    return "\n".join([cell["failure"], *lines])

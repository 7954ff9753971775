"""The report of an exploration: a directory with its findings, a page, and lines for a terminal.

The directory is written as findings come, so that an exploration can be resumed:

exploration.json     cells with the digests of their sources, kinds of faults, known bugs that are switched
runs.jsonl           a line per run that has ended
findings/ID.json     the findings, each with its plan; `kubeskew explore FILE` runs one again
report.json          written at the end: what `-o json` prints
index.html           the same, to read
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.conformance.errors import ScenarioError
from kubeskew.simulation.explore.classes import Verdict
from kubeskew.simulation.explore.findings import FORMAT_VERSION, Failure, Finding, Origin
from kubeskew.simulation.explore.timelines import Row

HEADER, RUNS, FINDINGS = "exploration.json", "runs.jsonl", "findings"
REPORT, PAGE = "report.json", "index.html"
_REMEDY = "name another directory for --report, or remove this one"
_WIDTH = 78  # of a time line's column in a terminal


@dataclass(frozen=True, slots=True)
class Header:
    """The cells and faults of the exploration in a directory."""

    build: str
    cells: Mapping[str, str]  # name → digest
    kinds: Sequence[str]
    bugs: Mapping[str, bool]

    def as_json(self) -> dict[str, Any]:
        return {
            "formatVersion": FORMAT_VERSION,
            "build": self.build,
            "cells": dict(self.cells),
            "kinds": list(self.kinds),
            "bugs": dict(self.bugs),
        }


class Kept:
    """A directory of runs and findings. `begin` must be called before the first of them."""

    def __init__(self, directory: Path, header: Header) -> None:
        self._directory = directory
        self._header = header

    def begin(self) -> None:
        (self._directory / FINDINGS).mkdir(parents=True, exist_ok=True)
        _replace(self._directory / HEADER, json.dumps(self._header.as_json(), indent=1))
        with (self._directory / RUNS).open("a+") as file:
            file.seek(0)
            if not f"\n{file.read()}".endswith("\n"):
                file.write("\n")  # behind a line that was cut short

    def earlier(self) -> Iterator[Mapping[str, Any]]:
        """Earlier runs count if they were of the same cells. A line cut short is left out.

        Raises ScenarioError if the directory is of another exploration.
        """
        path = self._directory / HEADER
        try:
            found = json.loads(path.read_text())
            known = Header(found["build"], found["cells"], found["kinds"], found["bugs"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ScenarioError(f"{path}: this exploration is damaged ({error}): {_REMEDY}") from error
        self._check(path, known)
        runs = self._directory / RUNS
        for line in runs.read_text().splitlines() if runs.exists() else ():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def _check(self, path: Path, known: Header) -> None:
        if known.build != self._header.build:
            raise ScenarioError(f"{path}: explored by another build of kubeskew: {_REMEDY}")
        for name, digest in self._header.cells.items():
            if known.cells.get(name, digest) != digest:
                raise ScenarioError(f"{path}: the scenario of {name} has changed since: {_REMEDY}")
        if known.as_json() != self._header.as_json():
            raise ScenarioError(f"{path}: this is an exploration of other cells, faults or bugs: {_REMEDY}")

    def findings(self) -> list[Finding]:
        paths = sorted((self._directory / FINDINGS).glob("*.json"))
        return [read_finding(path) for path in paths]

    def note(self, run: Mapping[str, Any]) -> None:
        with (self._directory / RUNS).open("a") as file:
            file.write(json.dumps(run, separators=(",", ":")) + "\n")

    def keep(self, finding: Finding) -> Path:
        """A finding replaces an earlier one of its id."""
        path = self._directory / FINDINGS / f"{finding.id}.json"
        _replace(path, json.dumps(finding.as_json(), indent=1))
        return path

    def finish(self, report: Mapping[str, Any], page: str) -> None:
        _replace(self._directory / REPORT, json.dumps(report, indent=1))
        _replace(self._directory / PAGE, page)


def holds_another_report(directory: Path) -> bool:
    """An exploration that was interrupted before its report has its header at least: a report without one is
    another's."""
    names = (REPORT, PAGE)
    return not (directory / HEADER).exists() and any((directory / name).exists() for name in names)


def _replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text + "\n")
    new.replace(path)


def read_finding(path: Path) -> Finding:
    """Raises ScenarioError if the file has no finding."""
    try:
        value = json.loads(path.read_text())
        version = value["formatVersion"]
        if version != FORMAT_VERSION:
            why = f"its formatVersion is {version!r}, this kubeskew reads {FORMAT_VERSION}"
            raise ScenarioError(f"{path}: {why}")
        return _finding(value)
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ScenarioError(f"{path}: this is no finding of kubeskew explore: {error!r}") from error


def _finding(value: Mapping[str, Any]) -> Finding:
    known = value["known"]
    return Finding(
        Origin(value["cell"], value["scenario"], value["build"], value["digest"], value["bugs"]),
        int(value["seed"]),
        Failure(value["invariant"], value["message"], value["revision"], value["step"]),
        Verdict(value["class"], known["id"], known["reason"], known["source"]),
        value["plan"],
        tuple(value["faults"]),
        value["logHash"],
        value["steps"],
        value["minimized"],
        value["trials"],
        value["seen"],
        (*_pairs(value["events"]),),
    )


def _pairs(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Row | None, Row | None]]:
    for event in events:
        one, two = event["with"], event["without"]
        yield (Row(**one) if one else None, Row(**two) if two else None)


def as_html(report: Mapping[str, Any], title: str) -> str:
    """The page needs no other files."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("kubeskew.simulation.explore")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    return environment.get_template("exploration.html").render(report=report, title=title)


def as_text(finding: Mapping[str, Any]) -> Iterator[str]:
    step = f"{finding['step']}: " if finding["step"] else ""
    yield f"{finding['id']} [{finding['class']}] {finding['invariant']}: {step}{finding['message']}"
    if finding["known"]["id"]:
        yield f"  {finding['known']['id']}: {finding['known']['reason']} ({finding['known']['source']})"
    steps = "" if finding["steps"] is None else f", its first {finding['steps']} steps"
    yield f"  {finding['cell']}, seed {finding['seed']}{steps}; seen in {finding['seen']} runs"
    yield f"  again: {finding['command']}"
    for fault in finding["faults"]:
        yield f"  fault: {fault}"
    if finding["events"]:
        yield f"  {'with the faults':{_WIDTH}} | without"
    for pair in finding["events"]:
        if not pair["with"] and not pair["without"]:
            yield "  …"
            continue
        yield f"  {_cell(pair['with']):{_WIDTH}} | {_cell(pair['without'])}".rstrip()


_SIGNS = {"fault": "!", "found": "X", "parted": ">"}


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    text = f"{_SIGNS.get(row['mark'], ' ')} {row['seconds']:8.3f} {row['by']}: {row['what']}"
    text = " ".join(text.split("\n"))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"

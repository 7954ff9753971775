"""Renders the page of a report: a grid of all cells at once, and the details of a cell when it is opened.

The page is one file without links to others. The grid is markup, which is there without scripts; each cell's
details are compressed JSON that a script unpacks when the cell is opened, so that a page of many cells opens
as fast as one of few.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.conformance.reporting import lanes

_VERSION = re.compile(r"\d+\.\d+")

WORDS = {"passed": "passed", "expected": "fails as upstream", "failed": "failed", "notRun": "not run"}
GLYPHS = {"passed": "✓", "expected": "≈", "failed": "✗", "notRun": "○"}


@dataclass(slots=True)
class Group:
    """A table of the grid: scenarios of one folder, by the paths of versions that they were run along."""

    name: str
    places: dict[tuple[str, str], list[Mapping[str, Any]]] = field(default_factory=dict)  # scenario and path

    def put(self, cell: Mapping[str, Any]) -> None:
        self.places.setdefault((cell["scenario"], _path(cell)), []).append(cell)

    @property
    def cells(self) -> list[Mapping[str, Any]]:
        return [cell for cells in self.places.values() for cell in cells]

    @property
    def scenarios(self) -> list[str]:
        return list(dict.fromkeys(scenario for scenario, _ in self.places))

    @property
    def paths(self) -> list[str]:
        """Paths of the oldest versions come first."""
        return sorted(dict.fromkeys(path for _, path in self.places), key=_age)


def as_html(report: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("kubeskew.conformance"), autoescape=True, trim_blocks=True)
    environment.filters["variant"] = variant
    environment.filters["programs"] = lanes.programs_of
    cells = report["cells"]
    both = [cell for cell in cells if cell["sideBySide"]]
    common = lanes.shared(cells)
    return environment.get_template("report.html").render(
        report=report,
        virtual=is_simulated(report),
        groups=_groups(cells),
        numbers={cell["name"]: number for number, cell in enumerate(cells)},
        causes=causes(cells),
        unlike=[cell for cell in both if lanes.is_unlike(cell)],
        own={cell["name"]: lanes.own_differences(cell, common) for cell in both},
        unshared=[cell["name"] for cell in both if lanes.is_alone(cell, common)],
        shared=common,
        alike=[cell for cell in both if not lanes.is_unlike(cell)],
        programs=lanes.by_programs(cells),
        impossible=lanes.impossible_steps(cells),
        words=WORDS,
        glyphs=GLYPHS,
        details=[pack(cell) for cell in cells],
    )


def is_simulated(report: Mapping[str, Any]) -> bool:
    """Seconds are virtual if all cells were simulated."""
    cells = report["cells"]
    return bool(cells) and all(cell.get("seed") is not None for cell in cells)


def pack(value: Any) -> str:
    """`unpack` of `report.js` reads this: base64 of compressed JSON."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 6)).decode()


def causes(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Cells that failed are grouped by the text of their failure, the most frequent first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell["result"] == "failed":
            found.setdefault(cell["failure"], []).append(cell)
    return sorted(found.items(), key=lambda entry: -len(entry[1]))


def variant(cell: Mapping[str, Any]) -> str:
    """The labels that differ between cells of one scenario and path."""
    return " ".join(label for label in _labels(cell) if not _VERSION.match(label))


def _path(cell: Mapping[str, Any]) -> str:
    return " ".join(label for label in _labels(cell) if _VERSION.match(label))


def _labels(cell: Mapping[str, Any]) -> list[str]:
    return [label for label in cell["name"].removeprefix(cell["scenario"]).split("/") if label]


def _age(path: str) -> tuple[Sequence[tuple[int, int]], str]:
    found = re.findall(r"(\d+)\.(\d+)", path)
    return [(int(major), int(minor)) for major, minor in found], path


def _groups(cells: Sequence[Mapping[str, Any]]) -> list[Group]:
    groups: dict[str, Group] = {}
    for cell in cells:
        name = cell["scenario"].partition("/")[0]
        groups.setdefault(name, Group(name)).put(cell)
    return list(groups.values())

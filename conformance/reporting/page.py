"""Makes the page of a report: a grid of all cells at once, and what is known of a cell when it is opened.

The page has nothing from elsewhere and needs nothing beside it. The grid is markup, which is there without
scripts; each cell's details are compressed JSON that a script unpacks when the cell is opened, so that a page
of many cells opens as fast as one of few.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
        """Returns the paths, those of the oldest versions first."""
        return sorted(dict.fromkeys(path for _, path in self.places), key=_age)


def as_html(report: Mapping[str, Any]) -> str:
    """Returns the page of a report, as `report.json` has it."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("kubeskew.conformance"), autoescape=True, trim_blocks=True)
    environment.filters["variant"] = variant
    cells = report["cells"]
    return environment.get_template("report.html").render(
        report=report,
        virtual=is_simulated(report),
        groups=_groups(cells),
        numbers={cell["name"]: number for number, cell in enumerate(cells)},
        causes=causes(cells),
        words=WORDS,
        glyphs=GLYPHS,
        details=[pack(cell) for cell in cells],
    )


def is_simulated(report: Mapping[str, Any]) -> bool:
    """Returns whether the seconds of a report are virtual ones: those of cells that were all simulated."""
    cells = report["cells"]
    return bool(cells) and all(cell.get("seed") is not None for cell in cells)


def pack(value: Any) -> str:
    """Returns JSON, compressed and in letters, as `unpack` of `report.js` reads it."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 6)).decode()


def causes(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Returns the cells that failed by what is told of it, the most frequent first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell["result"] == "failed":
            found.setdefault(cell["failure"], []).append(cell)
    return sorted(found.items(), key=lambda entry: -len(entry[1]))


def variant(cell: Mapping[str, Any]) -> str:
    """Returns what tells a cell from the others of its scenario and path."""
    return " ".join(label for label in _labels(cell) if not _VERSION.match(label))


def _path(cell: Mapping[str, Any]) -> str:
    return " ".join(label for label in _labels(cell) if _VERSION.match(label))


def _labels(cell: Mapping[str, Any]) -> list[str]:
    """Returns the names of the cell's parameters."""
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

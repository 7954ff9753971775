"""Summaries of a report whose cells ran with real programs, as `report.json` has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.conformance.results import FAILED, LaneDifference

RESULT = "result"


def is_unlike(cell: Mapping[str, Any]) -> bool:
    """True if a lane failed, or the lanes differ in anything."""
    lanes = cell["sideBySide"]
    emulated = lanes is not None and (lanes["differences"] or lanes["emulated"]["result"] == FAILED)
    return bool(emulated) or cell["result"] == FAILED


@dataclass(frozen=True, slots=True)
class Shared:
    """A difference that several cells have, though maybe in different steps."""

    kind: str
    about: str
    real: str
    emulated: str

    @classmethod
    def of(cls, difference: Mapping[str, Any]) -> "Shared":
        return cls(*(difference[name] for name in ("kind", "about", "real", "emulated")))

    def __str__(self) -> str:
        return f"{self.kind} {self.about}: real: {self.real}; emulated: {self.emulated}"


def shared(cells: Sequence[Mapping[str, Any]]) -> dict[Shared, list[str]]:
    """Differences of objects, events and metrics that several cells have, with these cells' names."""
    found: dict[Shared, list[str]] = {}
    for cell in cells:
        lanes = cell["sideBySide"]
        of_cell = lanes["differences"] if lanes else ()
        for each in dict.fromkeys(Shared.of(each) for each in of_cell if each["kind"] != RESULT):
            found.setdefault(each, []).append(cell["name"])
    return {each: names for each, names in found.items() if len(names) > 1}


def own_differences(cell: Mapping[str, Any], common: Mapping[Shared, Any]) -> list[Mapping[str, Any]]:
    """Those of the cell alone, in the order of steps."""
    lanes = cell["sideBySide"]
    return [each for each in (lanes["differences"] if lanes else ()) if Shared.of(each) not in common]


def is_alone(cell: Mapping[str, Any], common: Mapping[Shared, Any]) -> bool:
    """True of a cell that failed in a lane, or has differences which no other cell has."""
    lanes = cell["sideBySide"]
    failed = FAILED in (cell["result"], lanes["emulated"]["result"] if lanes else "")
    return failed or bool(own_differences(cell, common))


def differing_lines(cell: Mapping[str, Any], common: Mapping[Shared, Any] | None = None) -> list[str]:
    """The failure of the emulated lane comes first, then the differences of the lanes, without `common`
    ones."""
    lanes = cell["sideBySide"]
    if lanes is None:
        return []
    emulated = lanes["emulated"]
    failed = [f"emulated: failed: {emulated['failure']}"] if emulated["result"] == FAILED else []
    return [*failed, *(str(LaneDifference(**each)) for each in own_differences(cell, common or {}))]


def unlike_lines(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each cell whose lanes differ, with the first difference."""
    found = ((cell["name"], differing_lines(cell)) for cell in cells)
    return [f"{name}: {lines[0]}" for name, lines in found if lines]


def programs_of(cell: Mapping[str, Any]) -> str:
    """Name and version of each real program that ran; one that was replaced by another comes before it."""
    return ", ".join(" → ".join(programs) for programs in cell["programs"].values())


def by_programs(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Programs, and the number of cells that they ran in; cells without any are left out."""
    counts: dict[str, int] = {}
    for cell in cells:
        if programs := programs_of(cell):
            counts[programs] = counts.get(programs, 0) + 1
    return [*counts.items()]


def impossible_steps(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Reasons for which real programs left steps out, with the number of these steps and of their cells."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        for step in cell["steps"]:
            if step["impossible"]:
                found.setdefault(step["impossible"], []).append(cell["name"])
    return [(reason, len(names), len({*names})) for reason, names in found.items()]

"""Summaries of a report whose cells ran with real programs, as `report.json` has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.conformance.results import FAILED, LaneDifference


def is_unlike(cell: Mapping[str, Any]) -> bool:
    """True if a lane failed, or the lanes differ in anything."""
    lanes = cell["sideBySide"]
    emulated = lanes is not None and (lanes["differences"] or lanes["emulated"]["result"] == FAILED)
    return bool(emulated) or cell["result"] == FAILED


def differing_lines(cell: Mapping[str, Any]) -> list[str]:
    """The failure of the emulated lane comes first, then the differences of the lanes."""
    lanes = cell["sideBySide"]
    if lanes is None:
        return []
    emulated = lanes["emulated"]
    failed = [f"emulated: failed: {emulated['failure']}"] if emulated["result"] == FAILED else []
    return [*failed, *(str(LaneDifference(**each)) for each in lanes["differences"])]


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

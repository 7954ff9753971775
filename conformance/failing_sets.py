"""Finds the members that a step cannot do without, from a dimension of subsets.

With all 2^4 ways to leave components out, a step that fails without the scheduler fails in eight cells; what
one wants to know is `{scheduler}`. Cells are as `report.json` has them, so that reports can be merged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.conformance.results import FAILED, NOT_RUN
from kubeskew.conformance.scenario import Scenario, value_name


@dataclass(frozen=True, slots=True)
class Subsets:
    """A dimension of a scenario whose values are all subsets of some members."""

    scenario: str
    name: str  # of the dimension
    values: int  # how many there are


@dataclass(frozen=True, slots=True)
class FailingSets:
    """The minimal sets of members without which a step fails; it holds without any part of such a set.

    `cells` is the name of the cells compared, with the dimension's value left open.
    """

    cells: str
    step: str
    without: Sequence[tuple[str, ...]]


def subsets_of(scenarios: Iterable[Scenario]) -> list[Subsets]:
    """Returns the dimensions of subsets that these scenarios have."""
    return [
        Subsets(scenario.name, dimension.name, len(dimension.values))
        for scenario in scenarios
        for dimension in scenario.parameters
        if dimension.members
    ]


def failing_sets(dimensions: Iterable[Subsets], cells: Sequence[Mapping[str, Any]]) -> list[FailingSets]:
    """For every dimension of subsets, group of cells that differ in it alone, and step that fails in some.

    Groups of which not all ran tell nothing of what is minimal, nor do steps that some cell did not run.
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
    """Returns whether an operation failed, be it as upstream's."""
    return any(operation["result"] == FAILED for operation in step["operations"])


def _was_run(cell: Mapping[str, Any], step: str) -> bool:
    """Returns whether the cell tells anything of the step."""
    return any(other["name"] == step and other["result"] != NOT_RUN for other in cell["steps"])


def _minimal(sets: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for each in sorted(sets, key=lambda each: (len(each), each)):
        if not any(set(other) < set(each) for other in sets):
            yield each

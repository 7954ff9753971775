"""Finds the members that a step cannot do without, from a dimension of subsets.

With all 2^4 ways to leave components out, a step that fails without the scheduler fails in eight cells; what
one wants to know is `{scheduler}`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeskew.conformance.results import CellResult
from kubeskew.conformance.scenario import Parameter, Scenario, value_name


@dataclass(frozen=True, slots=True)
class FailingSets:
    """The minimal sets of members without which a step fails; it holds without any part of such a set.

    `cells` is the name of the cells compared, with the dimension's value left open.
    """

    cells: str
    step: str
    without: Sequence[tuple[str, ...]]


def failing_sets(scenarios: Iterable[Scenario], results: Sequence[CellResult]) -> list[FailingSets]:
    """For every dimension of subsets, group of cells that differ in it alone, and step that fails in some.

    Groups of which not all ran tell nothing of what is minimal, nor do steps that some cell did not run.
    """
    return [
        FailingSets(cells, step.name, minimal)
        for scenario in scenarios
        for dimension in scenario.parameters
        if dimension.members
        for cells, group in _groups(scenario, dimension, results).items()
        if len(group) == len(dimension.values)
        for step in group[0].steps
        if all(_was_run(result, step.name) for result in group)
        if (minimal := list(_minimal(_failing(group, step.name, dimension))))
    ]


def _groups(
    scenario: Scenario, dimension: Parameter, results: Sequence[CellResult]
) -> Mapping[str, list[CellResult]]:
    groups: dict[str, list[CellResult]] = {}
    for result in results:
        if result.scenario == scenario.name and not result.error:
            values = {**result.parameters, dimension.name: "*"}
            name = "/".join([scenario.name, *map(value_name, values.values())])
            groups.setdefault(name, []).append(result)
    return groups


def _failing(group: Sequence[CellResult], step: str, dimension: Parameter) -> list[tuple[str, ...]]:
    return [
        tuple(result.parameters[dimension.name]["out"])
        for result in group
        if any(each.name == step and each.failed for each in result.steps)
    ]


def _was_run(result: CellResult, step: str) -> bool:
    """Returns whether the cell tells anything of the step."""
    return any(other.name == step and not other.not_run for other in result.steps)


def _minimal(sets: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for each in sorted(sets, key=lambda each: (len(each), each)):
        if not any(set(other) < set(each) for other in sets):
            yield each

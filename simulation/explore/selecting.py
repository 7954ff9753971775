"""Chooses the cells to explore: by the names of scenarios or cells, by patterns, by files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kubeskew.conformance import matrix
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.resuming import digest_of, digest_of_package
from kubeskew.conformance.scenario import Cell, Scenario
from kubeskew.simulation.explore.finding import Origin

_PATTERN = frozenset("*?[")


_UNEXPLORED = {  # operations, and why cells that have them are left out
    "script": "`script` runs other programs, which cannot see a simulated cluster",
    "command": "`command` runs other programs, which cannot see a simulated cluster",
    "fork": "`fork` goes on in other clusters than the one that faults are put into",
}


def cells_named(names: Sequence[str], bugs: Mapping[str, bool]) -> list[Cell]:
    """Returns the cells of scenarios, and those that are named themselves, each once; with known bugs
    switched.

    Raises ScenarioError.
    """
    cells: dict[str, Cell] = {}
    for name in names:
        for cell in _of(name):
            cells.setdefault(cell.name, replace(cell, scenario=_with_cluster(cell, bugs)))
    reasons = {
        name: [why for kind, why in _UNEXPLORED.items() if cell.uses(kind)] for name, cell in cells.items()
    }
    possible = {name: cell for name, cell in cells.items() if not reasons[name]}
    if not possible:
        why = "; ".join(dict.fromkeys(why for each in reasons.values() for why in each))
        raise ScenarioError(f"{', '.join(names)}: nothing can be explored: {why}")
    return list(possible.values())


def _with_cluster(cell: Cell, bugs: Mapping[str, bool]) -> Scenario:
    """Returns the scenario; one that says nothing of its cluster gets the usual one."""
    return replace(cell.scenario, cluster=cell.scenario.cluster or {}, bugs=bugs)


def _of(name: str) -> list[Cell]:
    if _PATTERN & set(name):
        matching = matrix.of_profile("full").cells([name])
        if not matching:
            raise ScenarioError(
                f"no cell has a name like {name}: `kubeskew matrix --profile full --list` shows them"
            )
        return matching
    return matrix.of_scenarios([name]).cells()


def origin_of(cell: Cell) -> Origin:
    """Returns what a run of a cell is made of; of a scenario that comes along its name, else the file."""
    names = {str(path): name for name, path in matrix.bundled().items()}
    source = names.get(cell.scenario.source, cell.scenario.source)
    scenario = cell.scenario
    return Origin(cell.name, source, digest_of_package().hex(), digest_of(scenario), scenario.bugs)

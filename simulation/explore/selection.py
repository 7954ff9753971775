"""Selects cells to explore: by the names of scenarios or cells, by patterns, by files.

The cell of a finding's file is selected, to be run again, if its sources have not changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kubeskew.conformance import matrix
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.resumption import digest_of, digest_of_package
from kubeskew.conformance.scenario import Cell, Scenario
from kubeskew.simulation.explore.exploration import Exploration
from kubeskew.simulation.explore.findings import Finding, Origin
from kubeskew.simulation.explore.report import read_finding
from kubeskew.simulation.faults.plan import PlanError, plan_of

_PATTERN = frozenset("*?[")


_UNEXPLORED = {  # operations, and why cells that have them are left out
    "script": "`script` runs other programs, which cannot see a simulated cluster",
    "command": "`command` runs other programs, which cannot see a simulated cluster",
    "fork": "`fork` goes on in other clusters than the one that faults are put into",
}
_SHOWN = 12


def cells_named(names: Sequence[str], bugs: Mapping[str, bool]) -> list[Cell]:
    """Cells of scenarios, and those that are named themselves, come once each, with known bugs switched.

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
    """A scenario without a cluster gets the usual one."""
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
    """A bundled scenario is named, others have their file."""
    names = {str(path): name for name, path in matrix.bundled().items()}
    source = names.get(cell.scenario.source, cell.scenario.source)
    scenario = cell.scenario
    return Origin(cell.name, source, digest_of_package().hex(), digest_of(scenario), scenario.bugs)


def finding_to_replay(path: Path) -> tuple[Finding, Cell]:
    """Raises ScenarioError if kubeskew or the scenario has changed since."""
    finding = read_finding(path)
    known, build = finding.origin.build, digest_of_package().hex()
    if known != build:
        raise ScenarioError(
            f"{path}: recorded at build {known[:_SHOWN]}, this is {build[:_SHOWN]}, where it would be another"
            f" run: check out that commit, or explore {finding.origin.cell} --seed {finding.seed} here"
        )
    named = cells_named([finding.origin.source], finding.origin.bugs)
    cells = [each for each in named if each.name == finding.origin.cell]
    if not cells:
        raise ScenarioError(f"{path}: there is no cell {finding.origin.cell} any more")
    if origin_of(cells[0]).digest != finding.origin.digest:
        raise ScenarioError(
            f"{path}: the scenario of {finding.origin.cell} has changed since: explore it again"
        )
    try:
        plan_of(finding.plan)
    except PlanError as error:
        raise ScenarioError(f"{path}: plan: {error}") from error
    return finding, cells[0]


def compared_with_finding(finding: Finding, exploration: Exploration) -> str:
    log_hash = exploration.log_hashes.get((finding.origin.cell, finding.seed), "")
    same = (
        "the recorded one, to the byte" if log_hash == finding.log_hash else "another than the recorded one"
    )
    again = "found again" if finding.id in exploration.findings else "not found again"
    return f"{finding.id}: {again}; the log is {same} ({log_hash[:_SHOWN]})"

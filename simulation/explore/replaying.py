"""Runs a finding's file again, if it still means what it meant."""

from pathlib import Path

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.resuming import digest_of_package
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.explore.exploration import Exploration
from kubeskew.simulation.explore.finding import Finding
from kubeskew.simulation.explore.keeping import read_finding
from kubeskew.simulation.explore.selecting import cells_named, origin_of
from kubeskew.simulation.faults.plan import PlanError, plan_of

_SHOWN = 12


def finding_to_replay(path: Path) -> tuple[Finding, Cell]:
    """Returns a finding and its cell. Raises ScenarioError if kubeskew or the scenario has changed since."""
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
            f"{path}: the scenario of {finding.origin.cell} has changed since: explore it anew"
        )
    try:
        plan_of(finding.plan)
    except PlanError as error:
        raise ScenarioError(f"{path}: plan: {error}") from error
    return finding, cells[0]


def compared(finding: Finding, exploration: Exploration) -> str:
    """Says whether the run was the recorded one."""
    log_hash = exploration.log_hashes.get((finding.origin.cell, finding.seed), "")
    same = (
        "the recorded one, to the byte" if log_hash == finding.log_hash else "another than the recorded one"
    )
    again = "found again" if finding.id in exploration.findings else "not found again"
    return f"{finding.id}: {again}; the log is {same} ({log_hash[:_SHOWN]})"

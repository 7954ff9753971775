"""Expected failures are those of upstream: a component that does nothing does not bring them about.

Each is tried in a cell that does not have it: at a release with the bug, without the bug; else in a cell of
the same scenario that the mark is not for. From the step of the mark on a component does not reach the API
server. What fails then must not look like the failure that is expected, or something else must fail, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubeskew.conformance import matrix
from kubeskew.conformance.loading import parse
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.scenario import JUDGED, Cell, ExpectedFailure, Operation, Part, Repeat, Step
from kubeskew.simulation.running import simulate

COMPONENTS = ("scheduler", "controller-manager", "kubelet")
FILES = Path(__file__).parents[2] / "conformance" / "scenarios"
SCENARIOS = sorted(
    path.relative_to(FILES).with_suffix("").as_posix()
    for path in FILES.glob("*/*.yaml")
    if "\n  expectedFailures:\n" in path.read_text()
)
Marks = Mapping[str, Sequence[ExpectedFailure]]


def cells_of(name: str) -> Sequence[Cell]:
    """Returns the cells of a bundled scenario."""
    return matrix.of_scenarios([name]).cells()


def outages(component: str, cluster: Mapping[str, Any]) -> Sequence[Operation]:
    """Returns the operations that keep a component, or all kubelets, from reaching the API server."""
    names = [component]
    if component == "kubelet":
        nodes = cluster.get("nodes") or []
        names = [f"kubelet/{node['name'] if isinstance(node, Mapping) else node}" for node in nodes]
    faults = [{"fault": {"component": each, "outage": True, "optional": True}} for each in names]
    test = {"apiVersion": "chainsaw.kyverno.io/v1alpha1", "kind": "Test", "metadata": {"name": "outages"}}
    [step] = parse([{**test, "spec": {"steps": [{"name": "outages", "try": faults}]}}], "outages").steps
    return step.operations


def beginning_with(part: Part, step: str, operations: Sequence[Operation]) -> Part:
    """Returns the part of a scenario, in which a step begins with other operations."""
    if isinstance(part, Repeat):
        members = tuple(beginning_with(member, step, operations) for member in part.members)
        return replace(part, members=members)  # type: ignore[arg-type]
    if isinstance(part, Step) and part.name == step:
        return replace(part, operations=(*operations, *part.operations))
    return part


def without(cell: Cell, step: str, marks: Sequence[ExpectedFailure], cells: Sequence[Cell]) -> Cell | None:
    """Returns a cell in which the step is not to fail; None if the scenario has none."""
    if all(mark.bug for mark in marks):
        bugs = {mark.bug: False for each in cell.expected_failures().values() for mark in each}
        return replace(cell, scenario=replace(cell.scenario, bugs=bugs))
    for other in cells:
        runs = any(each.name == step for each in other.steps()) and step not in other.exemptions()
        if runs and step not in other.expected_failures():
            return other
    return None


def attempts(name: str) -> Iterator[tuple[Cell, str, Marks]]:
    """Yields cells without a failure, the step that fails elsewhere, and how it fails there; each once."""
    cells, seen = cells_of(name), set[tuple[str, ...]]()
    for cell in cells:
        expected = {step: marks for step, marks in cell.expected_failures().items() if step not in JUDGED}
        for step, marks in expected.items():
            which = (step, *(mark.found for mark in marks))
            other = without(cell, step, marks, cells) if which not in seen else None
            seen.add(which)
            if other is not None:
                of_bugs = all(mark.bug for mark in marks)
                yield other, step, expected if of_bugs else {**other.expected_failures(), step: marks}


def run_without(component: str, cell: Cell, step: str) -> CellResult:
    """Runs a cell whose component does nothing any more when a step begins."""
    [base] = {each.base or each.name for each in cell.steps() if each.name == step}
    operations = outages(component, cell.cluster())
    parts = tuple(beginning_with(part, base, operations) for part in cell.scenario.parts)
    changed = replace(cell, scenario=replace(cell.scenario, parts=parts))
    return simulate(changed, 0, lambda _: None).result


@pytest.mark.slow
@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_mark_is_met_because_a_component_does_nothing(name: str, component: str):
    """A cell is red if a step fails for want of a component, whatever failure is expected of that step."""
    tried = list(attempts(name))
    if not tried:
        pytest.skip("the failure is expected in all cells")
    for cell, step, expected in tried:
        result = run_without(component, cell, step)
        result.expected_failures = expected
        failed = any(each.name == step and each.failed for each in result.steps)
        assert not (failed and result.passed), (
            f"{cell.name}: {step}: {[mark.found for mark in expected[step]]}"
        )

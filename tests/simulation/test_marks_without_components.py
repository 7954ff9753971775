"""Expected failures are those of upstream: a component that does nothing does not bring them about.

Each is tried in a cell that does not have it: at a release with the bug, without the bug; else in a cell of
the same scenario that the mark is not for. From the step of the mark on a component does not reach the API
server. What fails then must not look like the failure that is expected, or something else must fail, too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cluster import config
from kubeskew.conformance import matrix
from kubeskew.conformance.loader import parse
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.scenario import JUDGED, Cell, ExpectedFailure, Fork, Operation, Repeat, Step
from kubeskew.simulation.runs import simulate

COMPONENTS = ("scheduler", "controller-manager", "kubelet", "driver")
FILES = Path(__file__).parents[2] / "conformance" / "scenarios"
# Their failures are expected in all cells, or of invariants alone: there is none to hold a run without a
# component against.
EVERYWHERE = (
    "classic/checkpoint",
    "classic/gate-off",
    "classic/incompatible",
    "classic/slices-left-behind",
    "dra/faults",
    "dra/rollout-prepare",
    "kep-3063/components-off",
    "kep-3063/on-off-on",
    "kep-3063/waiting",
    "kep-4381/components-off",
    "kep-4381/from-structured-parameters",
    "kep-4381/moves",
    "kep-4381/scheduling",
    "kep-4815/gate-off",
    "kep-5004/forked-rollback",
    "kep-5004/locked",
    "kep-5004/lost-answer",
    "kep-5004/names",
    "paths/1.26-1.37-1.26",
    "storage/past-versions",
    "upgrade/cpu-manager-policy",
    "upgrade/init-container-devices",
    "upgrade/proposed-resize",
    "upgrade/sidecars-gate",
)
# What the file of a scenario says whose cluster has no kubelets, or has drivers.
NO_NODES, DRIVERS = re.compile(r"\bnodes: *\[\]"), re.compile(r"\bdrivers:")
Marks = Mapping[str, Sequence[ExpectedFailure]]


def cases() -> Iterator[tuple[str, str]]:
    """Yields scenarios with expected failures, each with every component of its cluster."""
    for path in sorted(FILES.glob("*/*.yaml")):
        name, text = path.relative_to(FILES).with_suffix("").as_posix(), path.read_text()
        if "\n  expectedFailures:\n" in text and name not in EVERYWHERE:
            lacks = {"kubelet": NO_NODES.search(text), "driver": not DRIVERS.search(text)}
            yield from ((name, component) for component in COMPONENTS if not lacks.get(component))


def cells_of(name: str) -> Sequence[Cell]:
    """Returns the cells of a bundled scenario."""
    return matrix.of_scenarios([name]).cells()


def processes(component: str, cluster: Mapping[str, Any]) -> Sequence[str]:
    """Returns what faults call a component: each kubelet, and each driver, of the cluster has a name."""
    nodes = config.parse(dict(cluster), "the scenario's cluster").nodes
    if component == "kubelet":
        return [f"kubelet/{node.name}" for node in nodes]
    if component == "driver":
        return [
            f"driver/{name}"
            for name in dict.fromkeys(each["name"] for node in nodes for each in node.drivers)
        ]
    return [component]


def outages(names: Sequence[str]) -> Sequence[Operation]:
    """Returns the operations that keep components from reaching the API server."""
    faults = [{"fault": {"component": name, "outage": True, "optional": True}} for name in names]
    test = {"apiVersion": "chainsaw.kyverno.io/v1alpha1", "kind": "Test", "metadata": {"name": "outages"}}
    [step] = parse([{**test, "spec": {"steps": [{"name": "outages", "try": faults}]}}], "outages").steps
    return step.operations


def beginning_with(part: Step | Repeat, step: str, operations: Sequence[Operation]) -> Step | Repeat:
    """Returns a part of a scenario, in which a step begins with other operations."""
    if isinstance(part, Repeat):
        members = (beginning_with(member, step, operations) for member in part.members)
        return replace(part, members=tuple(members))
    return replace(part, operations=(*operations, *part.operations)) if part.name == step else part


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


def run_without(names: Sequence[str], cell: Cell, step: str) -> CellResult:
    """Runs a cell in which components do nothing any more when a step begins."""
    [base] = {each.base or each.name for each in cell.steps() if each.name == step}
    operations = outages(names)
    parts = tuple(
        part if isinstance(part, Fork) else beginning_with(part, base, operations)
        for part in cell.scenario.parts
    )
    changed = replace(cell, scenario=replace(cell.scenario, parts=parts))
    return simulate(changed, 0, lambda _: None).result


@pytest.mark.slow
@pytest.mark.parametrize(("name", "component"), [*cases()])
def test_no_mark_is_met_because_a_component_does_nothing(name: str, component: str):
    """A cell is red if a step fails for want of a component, regardless of the failure that is expected
    of that step."""
    tried = [
        (*attempt, names)
        for attempt in attempts(name)
        if (names := processes(component, attempt[0].cluster()))
    ]
    assert tried, "no cell has the component, or the failure is expected in all of them (see EVERYWHERE)"
    for cell, step, expected, names in tried:
        result = run_without(names, cell, step)
        result.expected_failures = expected
        failed = any(each.name == step and each.failed for each in result.steps)
        assert not (failed and result.passed), (
            f"{cell.name}: {step}: {[mark.found for mark in expected[step]]}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_failure_that_is_expected_in_all_cells_has_none_to_be_held_against(name: str):
    """A scenario that is left out has no cell in which what fails is not expected to."""
    assert not list(attempts(name))

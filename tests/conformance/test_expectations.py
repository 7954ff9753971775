"""Cells that fail as upstream does, dimensions of subsets, and the minimal failing sets."""

from typing import Any

import pytest

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.failing_sets import failing_sets
from kubeskew.conformance.loading import parse
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.scenario import Scenario

SERVER_OUT = {"when": "(contains($on.out, 'server'))", "steps": ["works"], "reason": "needs the server"}


def scenario(**header: Any) -> Scenario:
    steps = [{"name": name, "try": []} for name in ("starts", "works")]
    test = {"apiVersion": "chainsaw.kyverno.io/v1alpha1", "kind": "Test", "metadata": {"name": "s"}}
    spec = {"parameters": {"on": {"subsets": ["server", "client"]}}, **header}
    return parse(
        [
            {"apiVersion": "kubeskew.io/v1alpha1", "kind": "Scenario", "spec": spec},
            {**test, "spec": {"steps": steps}},
        ],
        "file",
    )


def result_of(cell: Any, *failing: str) -> CellResult:
    steps = [
        StepResult(name, [OperationResult("do", "apply", 0.0, "it" if name in failing else "", "that")])
        for name in ("starts", "works")
    ]
    return CellResult(cell.name, "s", cell.parameters, steps, expected_failures=cell.expected_failures())


def test_a_dimension_of_subsets_has_a_cell_for_each():
    """All of them, the largest first, named by what is in them."""
    cells = list(scenario(baseline={"on": "all"}).cells())

    assert [cell.name for cell in cells] == ["s/all", "s/server", "s/client", "s/none"]
    assert cells[1].parameters["on"] == {"name": "server", "in": ["server"], "out": ["client"]}
    assert [cell.baseline for cell in cells] == [None, "s/all", "s/all", "s/all"]


@pytest.mark.parametrize(
    ("name", "failing", "outcome", "failure"),
    [
        ("s/all", [], "passed", ""),
        ("s/all", ["works"], "failed", "works: do: expected it; found that"),
        ("s/client", ["works"], "expected", ""),
        ("s/client", [], "failed", "works: passed, though it was expected to fail: needs the server"),
        ("s/client", ["starts", "works"], "failed", "starts: do: expected it; found that"),
        ("s/none", ["works"], "failed", "works: do: expected it; found that"),
    ],
)
def test_a_cell_fails_as_upstream_or_not_at_all(name: str, failing: list[str], outcome: str, failure: str):
    """A step that is expected to fail must fail, in the way it is expected to, and no other may."""
    otherwise = {**SERVER_OUT, "when": "($on.name == 'none')", "found": "something else"}
    [cell] = [
        each
        for each in scenario(expectedFailures=[otherwise, {**SERVER_OUT, "found": "that"}]).cells()
        if each.name == name
    ]
    result = result_of(cell, *failing)

    assert (result.outcome, result.failure) == (outcome, failure)


def test_minimal_failing_sets_leave_out_what_follows_from_them():
    """If a step fails without the server, that it fails without server and client says nothing more."""
    found = scenario()
    results = [
        result_of(c, *(["works"] if "server" in c.parameters["on"]["out"] else [])) for c in found.cells()
    ]

    [sets] = failing_sets([found], results)

    assert (sets.cells, sets.step, list(sets.without)) == ("s/*", "works", [("server",)])
    assert failing_sets([found], results[1:]) == []


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"baseline": {"on": "some"}}, "baseline.on: some is none of all, server, client, none"),
        ({"expectedFailures": [{**SERVER_OUT, "steps": ["ends"]}]}, "there is no step ends"),
        ({"expectedFailures": [{**SERVER_OUT, "reason": ""}]}, "expected `when`"),
        ({"parameters": {"on": {"subsets": []}}}, "expected a list of values"),
        ({"parameters": {True: ["a"]}}, "True is no name"),
    ],
)
def test_headers_are_checked(header: dict[str, Any], text: str):
    """A header that cannot mean anything is refused with what is wrong."""
    with pytest.raises(ScenarioError, match=text):
        scenario(**header)

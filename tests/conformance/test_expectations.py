"""Cells that fail as upstream does, dimensions of subsets, and the minimal failing sets."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeskew.conformance import marks
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.invariants.findings import DEFECT, known_findings
from kubeskew.conformance.loader import parse
from kubeskew.conformance.report import Run, as_json, subsets_of
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.scenario import Scenario

SERVER_OUT = {
    "when": "(contains($on.out, 'server'))",
    "steps": ["works"],
    "found": "that",
    "reason": "needs the server",
    "source": "kubernetes/kubernetes#1",
}

NOT_RUN = {"when": "(contains($on.out, 'server'))", "steps": ["works"], "reason": "there is no server"}


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


def test_a_mark_of_a_known_bug_holds_where_the_release_has_it():
    """A mark takes reason, source and releases from the row of its bug; a bug that is off is not expected."""
    mark = {"bug": "k8s-134773", "steps": ["works"], "found": "that"}
    made = scenario(parameters={"version": ["1.34.1", "1.34.2"]}, expectedFailures=[mark])
    there, fixed = made.cells()

    assert list(there.expected_failures()) == ["works"]
    assert there.expected_failures()["works"][0].source.endswith("/issues/134773")
    assert not fixed.expected_failures()
    assert not replace(there, scenario=replace(made, bugs={"k8s-134773": False})).expected_failures()
    assert replace(fixed, scenario=replace(made, bugs={"k8s-134773": True})).expected_failures()
    assert replace(fixed, scenario=replace(made, bugs={"k8s-134773": True})).cluster() == {
        "bugs": {"k8s-134773": True}
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bug": "k8s-1"}, "expectedFailures[0].bug: there is no known bug k8s-1"),
        ({"at": "1.34"}, "expectedFailures[0].at: expected, with `bug`, an expression of a release"),
        ({"bug": "k8s-141471"}, "cannot be switched on, for kubeskew does not behave so"),
    ],
)
def test_a_mark_of_no_known_bug_is_refused(changes: dict[str, str], why: str):
    """An unknown bug, one that nothing here behaves, and a release that is no expression are refused."""
    mark = {"bug": "k8s-134773", "steps": ["works"], "found": "that", **changes}
    with pytest.raises(ScenarioError, match=re.escape(why)):
        scenario(expectedFailures=[mark])


KNOWN_BROKEN = {
    "finding": "kubelet-refuses-a-pod-by-an-old-node",
    "when": "(`true`)",
    "steps": ["works"],
    "found": "I05 bound-is-admitted: Pod t/p",
}


@pytest.mark.parametrize(
    ("found", "matched"),
    [
        (
            "I05 bound-is-admitted: Pod t/p was refused there: NodeAffinity: …",
            "I05 bound-is-admitted: Pod t/p",
        ),
        ("I05 bound-is-admitted: Pod t/p was refused there: OutOfcpu: …", ""),
        ("I05 bound-is-admitted: Pod t/other was refused there: NodeAffinity: …", ""),
        ("I06 running-undisturbed: I05 bound-is-admitted: Pod t/p: NodeAffinity", ""),
    ],
)
def test_a_mark_of_a_finding_matches_what_both_match(found: str, matched: str):
    """The entry must fit, and the mark's own words; reason and source are those of the entry."""
    [cell, *_] = scenario(expectedFailures=[KNOWN_BROKEN]).cells()
    [mark] = cell.expected_failures()["works"]
    entry = known_findings()["kubelet-refuses-a-pod-by-an-old-node"]

    assert mark.matched(found) == matched
    assert (mark.reason, mark.source) == (entry.reason, entry.source)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"finding": "kubelet-refuses-a-pod-by-an-old-nodes"},
            "there is no finding kubelet-refuses-a-pod-by-an-old-nodes; did you mean",
        ),
        ({"finding": "ours"}, "expectedFailures[0].finding: ours is a defect of kubeskew's"),
        ({"reason": "so it is"}, "expectedFailures[0].reason: the finding kubelet-refuses"),
        ({"bug": "k8s-134773"}, "expectedFailures[0].bug: the finding kubelet-refuses"),
        ({"found": ""}, "expected `found`"),
        ({"found": ".*"}, "is in every text"),
    ],
)
def test_a_mark_of_no_finding_is_refused(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], why: str):
    """Nothing is excused by an entry that is not there, that is our defect, or without words of its own."""
    known = known_findings()
    ours = replace(known["kubelet-refuses-a-pod-by-an-old-node"], class_=DEFECT)
    monkeypatch.setattr(marks, "known_findings", lambda: {**known, "ours": ours})

    with pytest.raises(ScenarioError, match=re.escape(why)):
        scenario(expectedFailures=[{**KNOWN_BROKEN, **changes}])


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
        each for each in scenario(expectedFailures=[otherwise, SERVER_OUT]).cells() if each.name == name
    ]
    result = result_of(cell, *failing)

    assert (result.outcome, result.failure) == (outcome, failure)


def test_minimal_failing_sets_leave_out_what_follows_from_them():
    """A minimal failing set of components is reported, and larger sets that contain it are left out."""
    found = scenario()
    results = [
        result_of(c, *(["works"] if "server" in c.parameters["on"]["out"] else [])) for c in found.cells()
    ]

    def marked_without(cells: list[CellResult]) -> list[dict[str, Any]]:
        run = Run("run", datetime(2026, 1, 1, tzinfo=UTC), cells, subsets_of([found]))
        return as_json(run)["failingSets"]

    assert marked_without(results) == [{"cells": "s/*", "step": "works", "without": [("server",)]}]
    assert marked_without(results[1:]) == []


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"baseline": {"on": "some"}}, "baseline.on: some is none of all, server, client, none"),
        ({"expectedFailures": [{**SERVER_OUT, "steps": ["ends"]}]}, "there is no step ends"),
        (
            {"expectedFailures": [{**SERVER_OUT, "steps": ["work"]}]},
            "there is no step work; did you mean works",
        ),
        ({"expectedFailures": [{**SERVER_OUT, "reason": ""}]}, "expected `when`"),
        ({"expectedFailures": [{**SERVER_OUT, "source": " "}]}, "expected `source`"),
        (
            {"expectedFailures": [{**SERVER_OUT, "when": "($on.not)"}]},
            r"\$on has no field not; it has name, in",
        ),
        ({"expectedFailures": [{**SERVER_OUT, "fount": "x"}]}, "unknown key fount; .*; did you mean found"),
        (
            {"expectedFailures": [SERVER_OUT], "notRun": [NOT_RUN]},
            "'works' is in expectedFailures and in notRun",
        ),
        ({"notRun": [{**NOT_RUN, "steps": ["ends"]}]}, r"notRun\[0\].steps: there is no step ends"),
        (
            {"cluster": {"version": "($onn.name)"}},
            r"cluster: .* nothing is bound to \$onn here; .* did you mean \$on",
        ),
        ({"parameter": {}}, "the header's spec: unknown key parameter; .*; did you mean parameters"),
        ({"parameters": {"on": ["a", "a"]}}, "two values are named a"),
        ({"parameters": {"v": {"path": ["1.35"]}}}, "expected a list of at least two versions"),
        ({"parameters": {"v": {"path": ["1.35", 1.3]}}}, "YAML reads 1.30 as the number 1.3"),
        ({"parameters": {"on": {"subsets": []}}}, "expected a list of values"),
        ({"parameters": {True: ["a"]}}, "True is no name"),
    ],
)
def test_headers_are_checked(header: dict[str, Any], text: str):
    """A header that cannot mean anything is refused with what is wrong."""
    with pytest.raises(ScenarioError, match=text):
        scenario(**header)


@pytest.mark.parametrize("pattern", ["", ".*", "x?", "(a|)", ".", ".+", r"\w", "[^q]", "a*", "(", None, 7])
def test_an_expected_failure_says_by_what_it_is_known(pattern: Any):
    """A `found` that any failure has, or that is no regular expression, is refused when the file is read."""
    with pytest.raises(ScenarioError, match=r"expectedFailures\[0\].*found"):
        scenario(expectedFailures=[{**SERVER_OUT, "found": pattern}])


def test_a_path_of_versions_has_a_cell_and_its_hops():
    """A path of any length is one value, named after its versions; it names every hop."""
    found = scenario(parameters={"v": {"path": [1.33, "1.34", "1.35", "1.34"]}})
    [cell] = found.cells()
    path = cell.parameters["v"]

    assert cell.name == "s/1.33-1.34-1.35-1.34"
    assert (path["from"], path["to"], path["last"]) == ("1.33", "1.34", "1.34")
    assert [(hop["to"], hop["direction"]) for hop in path["hops"]] == [
        *(("1.34", "upgrade"), ("1.35", "upgrade"), ("1.34", "downgrade"))
    ]
    several = scenario(parameters={"v": {"paths": [["1.34", "1.35"], ["1.35", "1.36", "1.35"]]}})
    assert [cell.name for cell in several.cells()] == ["s/1.34-1.35", "s/1.35-1.36-1.35"]

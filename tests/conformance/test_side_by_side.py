"""Two lanes of a cell, with real programs and emulated: in which steps they differ, and how."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kubeskew.conformance.evidence.comparison import record
from kubeskew.conformance.evidence.log import Write
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.side_by_side import side_by_side

STEPS = ("one", "two")
HASHED = "replicasets.apps"
FAILED = "event Warning Failed Pod ns/a"


def write(
    revision: int, name: str = "a", verb: str = "create", resource: str = "pods", **value: Any
) -> Write:
    metadata = {"name": name, "uid": str(revision), **value.pop("metadata", {})}
    return Write(revision, "", verb, resource, "ns", name, "kubelet/n 1.36", {"metadata": metadata, **value})


def of_hash(text: str) -> dict[str, Any]:
    return {"labels": {"pod-template-hash": text}}


def event(revision: int, message: str, reason: str = "Failed", pod: str = "a") -> Write:
    about = {"kind": "Pod", "namespace": "ns", "name": pod}
    value = {"type": "Warning", "reason": reason, "involvedObject": about, "message": message}
    return write(revision, f"{pod}.{revision:x}", "create", "events", **value)


def cell(*log: Write, ends: Sequence[int] = (10, 20), steps: Sequence[StepResult] = ()) -> CellResult:
    """A cell of two steps, whose log ends with revision 20."""
    made = [*steps] or [StepResult(name) for name in STEPS]
    return CellResult("s/c", "s", {}, made, record=record(log, ends))


def differences(real: CellResult, emulated: CellResult) -> list[str]:
    return [str(each) for each in side_by_side(real, emulated).differences]


def step(name: str, found: str = "", **values: Any) -> StepResult:
    return StepResult(
        name, [OperationResult("look", "assert", 0.1, "a Pod" if found else "", found)], **values
    )


@pytest.mark.parametrize(
    ("real", "emulated"),
    [
        ([write(1, spec={"a": 1})], [write(7, spec={"a": 1})]),
        (
            [write(1, "a-bcdfg", metadata={"generateName": "a-"}), event(2, "no a-bcdfg", pod="a-bcdfg")],
            [write(1, "a-xwvzt", metadata={"generateName": "a-"}), event(3, "no a-xwvzt", pod="a-xwvzt")],
        ),
        ([write(1, status={"startTime": "now"})], [write(1, status={"startTime": "then"})]),
        ([event(1, "pulled in 1.25s from 10.0.0.1:80")], [event(2, "pulled in 7ms from 127.0.0.1:43210")]),
        ([write(1, p="no a-bcdfg")], [write(1, p="no a-xwvzt")]),
        (
            [write(1, "d-5c7f9", "create", HASHED, metadata=of_hash("5c7f9")), write(2, p="d-5c7f9")],
            [write(1, "d-76487", "create", HASHED, metadata=of_hash("76487")), write(2, p="d-76487")],
        ),
        ([write(1, p="a"), write(2, p="b")], [write(1, p="a"), write(15, verb="update", p="b")]),  # later
    ],
)
def test_chance_is_no_difference(real, emulated):
    """Revisions, times, addresses, drawn names, hashes of templates and the order of writes do not count."""
    assert differences(cell(*real), cell(*emulated)) == []


@pytest.mark.parametrize(
    ("real", "emulated", "expected"),
    [
        ([write(1, phase="x")], [write(1, phase="y")], ["one: object pods ns/a phase: real: x; emulated: y"]),
        ([write(1, phase="x")], [write(1)], ["one: object pods ns/a phase: real: x; emulated: absent"]),
        ([write(1)], [], ["one: object pods ns/a: real: present; emulated: absent"]),
        (
            [write(1)],
            [write(1), write(11, verb="delete")],
            ["two: object pods ns/a: real: present; emulated: absent"],
        ),
        ([write(1)], [write(1), event(12, "no")], [f"two: {FAILED}: real: absent; emulated: no"]),
        ([event(1, "0/2")], [event(1, "0/3")], [f"one: {FAILED}: real: 0/2; emulated: 0/3"]),
    ],
)
def test_a_difference_is_of_the_first_step_that_shows_it(real, emulated, expected):
    """Objects and events that only one lane ever had are named once, with the values of both."""
    assert differences(cell(*real), cell(*emulated)) == expected


def test_results_are_compared_by_their_texts():
    """A step that failed in one lane, or found something else, differs; drawn names do not."""
    real = cell(steps=[step("one", "Pod x-bcdfg"), step("two", "1")])
    emulated = cell(steps=[step("one", "Pod x-zxwvt"), step("two")])
    assert differences(real, emulated) == [
        "two: result: real: failed: look: expected a Pod; found 1; emulated: passed"
    ]
    absent = cell(steps=[step("one", "Pod x-bcdfg")])
    assert differences(real, absent) == [
        "two: result: real: failed: look: expected a Pod; found 1; emulated: no such step"
    ]
    broken = replace(absent, error="ClusterError: it does not start")
    [line] = differences(broken, absent)
    assert line == "the cell: result: real: ClusterError: it does not start; emulated: no error"


@pytest.mark.parametrize(
    ("about", "real", "emulated", "expected"),
    [
        ("scheduler pods", 1.0, 2.0, ["one: metric scheduler pods: real: 1; emulated: 2"]),
        ("scheduler pods", 1.0, 1.0, []),
        ("scheduler pods", None, 1.0, []),
        ("scheduler took_seconds", 1.5, 2.5, []),
        ("scheduler took", {"count": 1, "sum": 0.5}, {"count": 1, "sum": 0.7}, []),
        ("scheduler took", {"count": 1}, {"count": 3}, ["one: metric scheduler took: real: 1; emulated: 3"]),
    ],
)
def test_metrics_are_compared_by_what_was_read(about, real, emulated, expected):
    """Numbers differ, and numbers of observations; how long something took differs in every run."""
    lanes = [
        cell(steps=[StepResult("one", [OperationResult("metric", "metric", 0.1, about=about, value=value)])])
        for value in (real, emulated)
    ]
    assert differences(*lanes) == expected


def test_what_a_real_program_cannot_do_is_not_compared():
    """Neither is its step; of those behind only results are compared, for the objects are others there."""
    impossible = [StepResult("one", not_run="no", impossible="no"), step("two", "x", behind="behind one")]
    real = cell(write(12), ends=[20], steps=impossible)
    assert differences(real, cell()) == []

    passed = [StepResult("one", impossible="no"), step("two", behind="behind one")]
    other = cell(steps=[StepResult("one"), step("two", "x")])
    assert differences(cell(write(12), steps=passed), other) == [
        "two: result: real: passed; emulated: failed: look: expected a Pod; found x"
    ]


def test_what_is_judged_after_the_last_step_has_no_objects():
    """Invariants that fail at the end of one lane are compared by their texts alone."""
    judged = [*(StepResult(name) for name in STEPS), step("invariants", "a pod")]
    lanes = cell(write(1, spec={"a": 1}), steps=judged), cell(write(1, spec={"a": 1}))
    assert differences(*lanes) == [
        "invariants: result: real: failed: look: expected a Pod; found a pod; emulated: no such step"
    ]

"""Forking a cell's cluster, and comparing its branches, against API servers in memory."""

import pytest
import yaml
from cell_in_memory import HEAD, Control, run

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.conformance.errors import ImpossibleError
from kubeskew.conformance.evidence.comparison import (
    BranchDifference,
    ExpectedDifference,
    differences,
    fields,
    unexpected,
)
from kubeskew.conformance.evidence.log import Write
from kubeskew.conformance.loader import parse

pytestmark = pytest.mark.looptime

FORKED = """
  - name: before
    try: [{sleep: {duration: 1s}}]
    cleanup: [{upgrade: {to: "1.36"}}]
  - name: futures
    try:
    - fork:
        branches:
        - {name: one, bindings: [{name: letter, value: x}]}
        - {name: two, bindings: [{name: letter, value: y}], try: [{upgrade: {to: "1.35"}}]}
  - name: a step
    try:
    - apply: {resource: {apiVersion: v1, kind: Pod, metadata: {name: ($letter), labels: {of: ($branch)}}}}
  - name: another
    needs: a step
    try: [{upgrade: {to: "1.34"}}]
"""


def write(revision, name, verb="create", resource="pods", namespace="t", **spec):
    value = {"kind": "Pod", "metadata": {"name": name, "uid": f"u{revision}"}, "spec": spec}
    return Write(revision, f"2026-01-01T00:00:0{revision}Z", verb, resource, namespace, name, "x 1.36", value)


def cell_of(steps):
    [cell] = parse(list(yaml.safe_load_all(HEAD % "{cluster: {}}" + steps)), "file").cells()
    return cell


def test_the_steps_behind_a_fork_are_those_of_each_branch():
    """Steps are run in one branch after the other, up to each comparison, which is made once."""
    compared = "  - {name: both, try: [{compare: {}}]}\n  - {name: later, try: [{sleep: {duration: 1s}}]}\n"
    steps = cell_of(FORKED + compared).steps()
    of_branches = ["begins", "a step", "another"]
    assert [step.name for step in steps] == [
        *("before", "futures"),
        *(f"{branch}: {name}" for branch in ("one", "two") for name in of_branches),
        *("both", "one: later", "two: later"),
    ]
    assert [step.branch for step in steps if step.base == "later"] == ["one", "two"]


async def test_a_real_program_leaves_out_the_steps_of_its_branch_alone():
    """A step that it cannot do excuses failures of its own branch and of comparisons, not of the others."""
    control = Control()

    async def refuse() -> None:
        raise ImpossibleError("it cannot")

    def forked() -> None:
        control.branches["one"].changing = refuse

    control.forked = forked
    failing = "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: z}}, timeout: 1s}"
    result = await run(f"{FORKED}  - name: last\n    try: [{{{failing}}}]\n", control)

    verdicts = {step.name: (verdict.outcome, verdict.red) for step, verdict in result.verdicts()}
    assert verdicts["one: another"] == ("notRun", False)
    assert verdicts["one: last"] == ("notRun", False)
    assert verdicts["two: another"] == ("passed", False)
    assert verdicts["two: last"] == ("failed", True)


async def test_a_branch_is_a_cluster_of_its_own():
    """A branch changes its own cluster alone, with its own bindings; the first is left as it was."""
    control = Control()
    result = await run(FORKED, control)
    assert result.failure == ""
    assert control.calls == [("start", {}), ("fork", ["one", "two"]), "stop"]
    one, two = control.branches.values()
    assert [version for _, version, _ in one.calls] == ["1.34", "1.36"]
    assert [version for _, version, _ in two.calls] == ["1.35", "1.34", "1.36"]
    listed = [(await each.client().list(PODS))["items"] for each in (control, one, two)]
    found = [[(pod["metadata"]["name"], pod["metadata"]["labels"]["of"]) for pod in pods] for pods in listed]
    assert found == [[], [("x", "one")], [("y", "two")]]


async def test_branches_are_compared():
    """A comparison fails for a difference that is not named, and for a named one that is not there."""
    control = Control()
    steps = FORKED + "  - {name: both, try: [{compare: %s}]}\n"

    def written(branch, letter):
        branch.written = [write(1, "same", a="1"), write(2, "differs", a=letter)]

    async def compared(body):
        control.forked = lambda: [
            written(branch, letter) for branch, letter in zip(control.branches.values(), "xy", strict=True)
        ]
        result = await run(steps % body, control)
        compared.noted = result.observations
        return result.steps[-1].failures[0].found if result.steps[-1].failures else ""

    assert await compared("{}") == "pods/differs: spec.a: one x, two y"
    assert await compared("{differences: [{object: pods/differs, path: spec.*}]}") == ""
    assert (
        await compared("{differences: [{object: 'pods/*', path: spec.a, values: {one: y}}]}")
        == "pods/differs: spec.a: one x, two y; no difference pods/*: spec.a: one y"
    )
    assert compared.noted == {"both": ["pods/differs: spec.a: one x, two y"]}
    assert await compared("{resources: [secrets]}") == ""
    assert compared.noted == {"both": []}
    assert (
        await compared("{resources: [secrets], outcomes: [{step: a step, values: {one: failed}}]}")
        == "the step 'a step': one passed, two passed"
    )
    assert "there is no step 'none'" in await compared("{resources: [secrets], outcomes: [{step: none}]}")


def test_what_is_chance_is_no_difference():
    """Uids, times and what is deleted are no difference; an object that only one branch has is one."""
    logs = {
        "one": [write(1, "a", x="1"), write(2, "gone"), write(3, "gone", "delete"), write(4, "only", y="2")],
        "two": [write(5, "a", x="1"), write(6, "elsewhere", namespace="other")],
    }
    found = differences({name: fields(log, "t", []) for name, log in logs.items()})
    assert found == [BranchDifference("pods/only", "", {"one": "present", "two": "absent"})]


def test_objects_without_namespace_are_compared_where_they_are_named():
    """Resources that are named are compared wherever they are; others only in the namespace."""
    log = [write(1, "n", resource="nodes", namespace="", x="1"), write(2, "p")]
    assert [*fields(log, "t", [])] == [("pods", "p")]
    assert [*fields(log, "t", ["nodes"])] == [("nodes", "n")]


def test_differences_are_held_against_those_that_are_named():
    """A star stands for any text; a bracket for itself."""
    found = BranchDifference(
        "pods/a", "status.conditions[type=Ready].status", {"one": "True", "two": "False"}
    )
    assert unexpected(
        [found], [ExpectedDifference("pods/*", "status.conditions[type=*", {"two": "False"})]
    ) == (
        [],
        [],
    )
    wrong = ExpectedDifference("pods/a", "status.conditions[type=Ready]", {})
    assert unexpected([found], [wrong]) == ([found], [wrong])
    assert str(wrong) == "pods/a: status.conditions[type=Ready]"

"""Scenario files: what they say, and what is wrong with them."""

import pytest
import yaml

from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.loading import parse
from kubeskew.conformance.matrix import bundled, cells_of, find
from kubeskew.conformance.scenario import RUN_KINDS

TEST = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\n"


def scenario(text: str):
    return parse(list(yaml.safe_load_all(text)), "file")


def test_parameters_multiply():
    """One cell for each combination of the parameters' values, named after them."""
    found = scenario(
        "apiVersion: kubeskew.io/v1alpha1\nkind: Scenario\n"
        "spec: {parameters: {a: [1, 2], b: [{name: x, deep: y}]}}\n---\n"
        + TEST
        + "spec: {steps: [{try: [{sleep: {duration: 1s}}]}]}"
    )
    assert [cell.name for cell in found.cells()] == ["t/1/x", "t/2/x"]


def test_a_plain_chainsaw_test_needs_no_cluster_of_ours():
    """Without our operations a scenario runs against any cluster."""
    assert not scenario(TEST + "spec: {steps: [{try: [{sleep: {duration: 1s}}]}]}").needs_cluster
    assert scenario(TEST + "spec: {steps: [{try: [{restart: {component: scheduler}}]}]}").needs_cluster


@pytest.mark.parametrize("name", list(bundled()))
def test_every_bundled_scenario_is_read(name: str):
    """The scenarios that come along are well-formed."""
    assert find(name).name == name


def test_the_quick_matrix_has_both_namings():
    """`make run` is the KEP's scenario, explicit and implicit."""
    names = [cell.name for cell in cells_of("quick")]
    assert [name.split("/")[2] for name in names] == ["explicit", "implicit"]


def test_every_operation_can_be_run():
    """What the parser accepts, the runner knows."""
    from kubeskew.conformance.runner import RUN

    assert set(RUN) == set(RUN_KINDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod", "expected a kubeskew.io/v1alpha1 Scenario or a chainsaw"),
        (TEST + "---\n" + TEST, "expected one Test, found 2"),
        (TEST + "spec: {}", "spec.steps: expected a list of steps"),
        (TEST + "spec: {steps: [{}]}", r"spec.steps\[0\]: expected a step with a `try` list"),
        (TEST + "spec: {steps: [{try: [{fly: {}}]}]}", "unknown operation fly; known are apply"),
        (TEST + "spec: {steps: [{try: [{fork: {}}]}]}", "the operation fork is not supported yet"),
        (
            TEST + "spec: {steps: [{try: [{apply: {}, create: {}}]}]}",
            "expected one operation, found apply, create",
        ),
        (
            TEST + "spec: {steps: [{try: [{as: {user: a, groups: [b]}, apply: {}}]}]}",
            r"try\[0\].as: expected `user`, and perhaps `extra`",
        ),
        (TEST + "spec: {timeouts: {assert: soon}, steps: [{try: []}]}", "'soon' is not a duration"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str):
    """A wrong file is answered with the place and what is wrong there."""
    with pytest.raises(ScenarioError, match=message):
        scenario(text)


@pytest.mark.parametrize(("text", "value"), [("30s", 30), ("1m30s", 90), ("200ms", 0.2), ("1.5h", 5400)])
def test_durations(text: str, value: float):
    """Go's durations, in seconds."""
    assert seconds(text, "here") == pytest.approx(value)


def test_an_unknown_scenario_lists_the_known():
    """A wrong name is answered with what there is."""
    with pytest.raises(ScenarioError, match=r"no scenario x; there are: .*kep-5004/basic"):
        find("x")

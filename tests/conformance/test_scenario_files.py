"""Scenario files: what they say, and what is wrong with them."""

from pathlib import Path

import pytest
import yaml

from kubeskew.conformance.chainsaw import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import documents
from kubeskew.conformance.loader import parse
from kubeskew.conformance.matrix import bundled, cells_of, find
from kubeskew.conformance.scenario import RUN_KINDS, namespace_of

TEST = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\n"
HEADER = (
    "apiVersion: kubeskew.io/v1alpha1\nkind: Scenario\nspec: %s\n---\n" + TEST + "spec: {steps: [{try: []}]}"
)
TWO = "{fork: {branches: [{name: a}, {name: b}]}}"
FORK = "spec: {steps: [{try: [{fork: {branches: %s}}]}]}"
FORKED = "spec: {steps: [{try: [" + TWO + "]}, {try: [{compare: %s}]}]}"


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


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("kep-4381/moves", "kep-4381-moves"),
        ("upgrade-1.30", "upgrade-1-30"),
        ("My_Scenario", "my-scenario"),
        ("a" * 62 + "/b", "a" * 62),
        ("...", "scenario"),
    ],
)
def test_any_name_gives_a_namespace(name: str, namespace: str):
    """The objects of a scenario have a place regardless of its name and that of its file."""
    assert namespace_of(name) == namespace


def test_a_plain_chainsaw_test_needs_no_cluster_of_ours():
    """Without our operations a scenario runs against any cluster."""
    assert not scenario(TEST + "spec: {steps: [{try: [{sleep: {duration: 1s}}]}]}").needs_cluster
    assert scenario(TEST + "spec: {steps: [{try: [{restart: {component: scheduler}}]}]}").needs_cluster


@pytest.mark.parametrize("name", list(bundled()))
def test_every_bundled_scenario_is_read(name: str):
    """The scenarios that come along are well-formed."""
    assert [scenario.name for scenario in find(name)] == [name]


def test_the_first_matrix_has_both_namings():
    """`make run` is the KEP's scenario, explicit and implicit."""
    names = [cell.name for cell in cells_of("first")]
    assert [name.split("/")[2] for name in names] == ["explicit", "implicit"]


def test_the_quick_matrix_has_cells_of_every_group():
    """The profile `quick` has at least 40 cells, the first two among them, and some of every group but the
    paths, of which one is as long as ten others.
    """
    names = [cell.name for cell in cells_of("quick")]
    assert len(names) >= 40
    assert {cell.name for cell in cells_of("first")} <= set(names)
    groups = {name.split("/")[0] for name in bundled()} - {"paths"}
    assert {name.split("/")[0] for name in names} == groups


def test_every_operation_can_be_run():
    """The runner knows exactly the operations that the parser accepts."""
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
        (TEST + "spec: {steps: [{try: [{fork: {}}]}]}", r"try\[0\].fork: expected `branches`"),
        (TEST + "spec: {steps: [{try: [{fork: []}]}]}", r"fork: expected a mapping with branches"),
        (TEST + FORK % "[{name: a}]", "expected a list of two branches or more"),
        (TEST + FORK % "[{name: a}, {name: a}]", "two have one name; found a, a"),
        (TEST + FORK % "[{name: a}, {nam: b}]", r"branches\[1\]: unknown key nam; .*; did you mean name"),
        (TEST + FORK % "[{name: a}, {name: 1}]", r"branches\[1\].name: expected a text, found 1"),
        (
            TEST + FORK % "[{name: a}, {name: b, bindings: [{name: x, value: 1}]}]",
            "all have to bind the same names; 'a' and 'b' do not",
        ),
        (
            TEST + FORK % "[{name: a, bindings: [{name: branch, value: 1}]}, {name: b}]",
            r"\$branch is bound already",
        ),
        (
            TEST + FORK % "[{name: a, try: [{kil: {}}]}, {name: b}]",
            r"branches\[0\].try\[0\]: unknown operation kil",
        ),
        (
            TEST + "spec: {steps: [{try: [{sleep: {duration: 1s}}, {fork: {branches: []}}]}]}",
            "a `fork` stands alone in its step",
        ),
        (
            TEST + "spec: {steps: [{try: [], finally: [{fork: {branches: [a, b]}}]}]}",
            "a `fork` stands alone in a step's `try`",
        ),
        (
            TEST + "spec: {steps: [{forEach: {x: ($list)}, steps: [{try: [" + TWO + "]}]}]}",
            "a `fork` cannot be in a `forEach`",
        ),
        (TEST + "spec: {steps: [{try: [{compare: {}}]}]}", "stands in a step of its own, behind a `fork`"),
        (TEST + FORKED % "{branches: [a, c]}", "there is no branch c; there are a, b"),
        (TEST + FORKED % "{resources: [podz]}", "no release has a resource podz; did you mean pods"),
        (TEST + FORKED % "{differences: [{path: x}]}", r"differences\[0\]: expected `object`"),
        (TEST + FORKED % "{outcomes: [{step: s, values: {c: passed}}]}", "there is no branch c"),
        (
            TEST + "spec: {steps: [{try: [{apply: {}, create: {}}]}]}",
            "expected one operation, found apply, create",
        ),
        (
            TEST + "spec: {steps: [{try: [{as: {user: a, groups: [b]}, apply: {}}]}]}",
            r"try\[0\].as: expected `user`, and perhaps `group` and `extra`",
        ),
        (TEST + "spec: {timeouts: {assert: soon}, steps: [{try: []}]}", "'soon' is not a duration"),
        (
            TEST + "spec: {timeouts: {asert: 1s}, steps: [{try: []}]}",
            "unknown key asert; .*; did you mean assert",
        ),
        (TEST + "spec: {step: [], steps: [{try: []}]}", "spec: unknown key step; .*; did you mean steps"),
        (
            TEST + "spec: {steps: [{try: [], finaly: []}]}",
            r"steps\[0\]: unknown key finaly; .* did you mean finally",
        ),
        (
            TEST + "spec: {scenarios: [], steps: [{try: []}]}",
            "Chainsaw's key scenarios is not supported here: write `parameters` in a header",
        ),
        (TEST + "spec: {steps: [{try: [{aply: {}}]}]}", "unknown operation aply; .*; did you mean apply"),
        (
            TEST + "spec: {steps: [{try: [{assert: {resource: {}, timeot: 1s}}]}]}",
            r"try\[0\].assert: unknown key timeot; .*; did you mean timeout",
        ),
        (
            TEST + "spec: {steps: [{try: [{assert: {timeout: 1s}}]}]}",
            r"try\[0\].assert: expected either `resource` or `file`",
        ),
        (
            TEST + "spec: {steps: [{try: [{driver: {name: d, refusePrepar: true}}]}]}",
            "unknown key refusePrepar; .*; did you mean refusePrepare",
        ),
        (
            TEST + "spec: {steps: [{try: [{apply: {file: ($na)}}], bindings: [{name: nas, value: 1}]}]}",
            r"try\[0\].apply.file: \(\$na\): nothing is bound to \$na here; .* did you mean \$nas",
        ),
        (
            TEST
            + "spec: {bindings: [{name: r, value: {gpu: 1}}], steps: [{try: [{apply: {file: ($r.gp)}}]}]}",
            r"try\[0\].apply.file: .* \$r has no field gp; it has gpu; did you mean gpu",
        ),
        (
            TEST + "spec: {steps: [{try: [{apply: {file: (a..b)}}]}]}",
            r"try\[0\].apply.file: \(a\.\.b\)",
        ),
        (TEST + "spec: {steps: [{name: a, needs: b, try: []}]}", "there is no step 'b' before 'a'"),
        (TEST + "spec: {steps: [{forEach: {a: [1]}, steps: [{try: []}]}]}", "expected an expression"),
        (
            TEST + "spec: {steps: [{forEach: {a: (`1`)}, steps: [{try: []}]}]}",
            "forEach.a: expected a list, found 1",
        ),
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
    with pytest.raises(ScenarioError, match=r"no scenario x, and no such file; there are .*kep-5004/\*"):
        find("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: {on: 1}", 'file:2: YAML reads the key on as a boolean; write "on"'),
        ("No: 1", 'file:1: YAML reads the key No as a boolean; write "No"'),
        ("8080: 1", 'file:1: YAML reads the key 8080 as a number; write "8080"'),
        ("~: 1", 'file:1: YAML reads the key ~ as a null; write "~"'),
        ("a: 1\nb: 2\na: 3", "file:3: the key a is there twice in one mapping"),
        ("a: [", "file:2: not YAML: did not find expected node content"),
    ],
)
def test_keys_of_yaml_are_texts(text: str, message: str):
    """A key that YAML reads otherwise than it looks is refused with its line and what to write."""
    with pytest.raises(ScenarioError) as caught:
        documents(text, "file")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEST + "spec:\n  steps:\n  - try: []\n  - try: 1", "{}:7: spec.steps[1]: expected a step"),
        (TEST + "spec:\n  steps: []", "{}:5: spec.steps: expected a list of steps"),
        (
            TEST + "spec:\n  steps:\n  - try:\n    - description: d\n      slep: {duration: 1s}",
            "{}:8: spec.steps[0].try[0]: unknown operation slep",
        ),
        (
            TEST + "spec:\n  steps:\n  - try:\n    - assert:\n        count: 1\n        resorce: {}",
            "{}:9: spec.steps[0].try[0].assert: unknown key resorce",
        ),
        (HEADER % "\n    cluster:\n      nodes: [{count: x}]", "{}:5: cluster: nodes[0].count: expected"),
        (HEADER % "\n    parameters: {}\n    cluser: {}", "{}:5: the header's spec: unknown key cluser"),
        (
            HEADER % "\n    parameters:\n      v: ['1.34', '1.99']\n    cluster:\n      version: ($v)",
            "{}:7: cluster: version: version 1.99 is not supported",
        ),
        (
            TEST + "spec: {steps: [{try: []}]}\n---\n" + TEST + "spec: {steps: []}",
            "{}:9: spec.steps: expected a list of steps",
        ),
    ],
)
def test_mistakes_of_files_have_lines(text: str, message: str, tmp_path: Path):
    """An error of a file has the line of the key or item that is wrong."""
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        find(str(file))
    assert str(caught.value).startswith(message.format(file))


def test_merged_keys_may_be_overridden():
    """`<<` brings keys that the mapping may have itself."""
    assert documents("a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}", "file")[0]["b"] == {"x": 1, "y": 2}


def test_steps_are_repeated_for_each_item():
    """A `forEach` runs its steps for every item of a list, also within another, and names them after it."""
    found = scenario(
        "apiVersion: kubeskew.io/v1alpha1\nkind: Scenario\nspec:\n"
        "  parameters: {v: {path: ['1.34', '1.35', '1.34']}}\n"
        "  expectedFailures:\n"
        "  - {when: ($hop.direction == 'downgrade'), steps: [moves], found: a, reason: r, source: KEP}\n"
        "  - {when: (`true`), steps: ['1.34 to 1.35: b: looks'], found: a, reason: r, source: KEP}\n---\n"
        + TEST
        + "spec: {steps: [{name: starts, try: []}, {forEach: {hop: ($v.hops)}, steps: ["
        "{name: moves, try: [{upgrade: {to: ($hop.to)}}]},"
        "{forEach: {part: \"(['a', 'b'])\"}, steps: [{name: looks, try: [{sleep: {duration: ($part)}}]}]}]}]}"
    )
    [cell] = found.cells()

    assert [step.name for step in cell.steps()] == [
        *("starts", "1.34 to 1.35: moves", "1.34 to 1.35: a: looks", "1.34 to 1.35: b: looks"),
        *("1.35 to 1.34: moves", "1.35 to 1.34: a: looks", "1.35 to 1.34: b: looks"),
    ]
    assert cell.steps()[3].loop["part"] == "b"
    assert list(cell.expected_failures()) == ["1.34 to 1.35: b: looks", "1.35 to 1.34: moves"]


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("{apply: {}}", "apply: expected either `resource` or `file`"),
        ("{create: {file: a.yaml, resource: {}}}", "create: expected either `resource` or `file`"),
        (
            "{assert: {resource: {kind: Pod}}}",
            "assert.resource: expected an object with `apiVersion` and `kind`",
        ),
        ("{assert: {resource: {apiVersion: v1, kind: Pod}, count: two}}", "assert.count: expected a number"),
        (
            "{delete: {ref: {apiVersion: v1, kind: Pod, label: {}}}}",
            "delete.ref: unknown key label; .* labels",
        ),
        ("{delete: {ref: {kind: Pod}}}", "delete.ref: expected `apiVersion` and `kind`"),
        (
            "{wait: {apiVersion: v1, kind: Pod, for: {conditon: {}}}}",
            "wait.for: unknown key conditon; .* condition",
        ),
        ("{wait: {apiVersion: v1, kind: Pod, for: {condition: {}}}}", "wait.for.condition: expected `name`"),
        ("{sleep: {duration: 3}}", "sleep.duration: expected a duration such as .*, found 3"),
        ("{podLogs: {name: a, matches: '('}}", r"podLogs.matches: '\(' is not a regular expression"),
        ("{script: {content: x, env: [{nam: a}]}}", r"script.env\[0\]: unknown key nam; .* name"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(operation: str, message: str):
    """An operation with an impossible value is refused when its file is read."""
    with pytest.raises(ScenarioError, match=rf"file: spec.steps\[0\].try\[0\].{message}"):
        scenario(TEST + f"spec: {{steps: [{{try: [{operation}]}}]}}")

"""Files of Chainsaw's own: they are read and run as Chainsaw does; what is not done here is refused.

The files below tests/data/chainsaw are after Chainsaw's documentation (website/docs) and its own tests
(testdata/e2e/examples), which each names.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cell_in_memory import POD, Control
from cell_in_memory import run as run_with_header
from jmespath.functions import Functions
from loop_clock import LoopClock

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.bindings import known_functions
from kubeskew.conformance.chainsaw import KEYS, named_files
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import OPERATION_SETTINGS, OPERATIONS, STEP_KEYS, TEST_KEYS
from kubeskew.conformance.loader import load_all, parse
from kubeskew.conformance.matrix import of_scenarios
from kubeskew.conformance.matrix_runs import on_one_cluster
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import run_cell

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests/data/chainsaw").rglob("chainsaw-test.yaml"))
PAGE = (ROOT / "docs/chainsaw.md").read_text()
TEST = """
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
spec:
"""


async def run(spec: str, control: Control) -> CellResult:
    """The result of a test without a header on a cluster that is not ours."""
    [cell] = parse(list(yaml.safe_load_all(TEST + spec)), "file").cells()
    return await run_cell(cell, control, LoopClock(), lambda _: None)


def deleted(control: Control) -> list[str]:
    """The paths that were deleted, in order."""
    return [each.target.partition("?")[0] for each in control.server.seen if each.method == "DELETE"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_chainsaws_files_are_read(path: Path):
    """A file of Chainsaw's needs no change, and no cluster of kubeskew's own."""
    for scenario in load_all(path):
        assert scenario.is_chainsaw
        assert not scenario.needs_cluster


def test_a_folder_is_all_tests_below_it():
    """Tests of one name are distinguished, and two that share a namespace are not run at once."""
    selection = of_scenarios([str(ROOT / "tests/data/chainsaw"), str(FILES[0])])
    cells = selection.cells()

    assert [cell.name for cell in cells] == [
        *("collecting", "negative", "example", "example #2", "quick-start"),
        *("example #3", "example #4", "example #5", "wait"),
    ]
    assert on_one_cluster(cells, 4) == 1  # one has `concurrent: false`
    assert on_one_cluster(cells[:4], 4) == 4
    assert on_one_cluster([cells[0], cells[0]], 4) == 1


def supported(place: str) -> set[str]:
    """The keys of Chainsaw's that are taken at a place."""
    known = {"Test": TEST_KEYS, "step": STEP_KEYS, "any operation": OPERATION_SETTINGS}
    keys = known[place] if place in known else OPERATIONS[place].keys if place in OPERATIONS else ()
    return {*keys} & {*KEYS[place]}


def rows() -> Iterator[tuple[set[str], set[str], set[str]]]:
    """The rows of the page's table that are of keys: places, the words that are supported, those refused."""
    named = {"`spec`": {"Test"}, "a step": {"step"}, "any operation": {"any operation"}}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        places = named.get(cells[0], {*re.findall(r"`(\w+)`", cells[0])} & {*KEYS}) if cells else set()
        if places:
            yield places, *({*re.findall(r"`(\w+)[`:]", cell)} for cell in cells[1:])


def test_the_page_names_what_is_supported_and_what_not():
    """The table has each key of Chainsaw's in the column that shows what the reader does with it."""
    found = [*rows()]
    assert set().union(*(places for places, _, _ in found)) == {*KEYS} - {"bindings", "outputs", "expect"}
    for places, taken, refused in found:
        if places == {"proxy"}:
            continue
        ours = set().union(*(supported(place) for place in places))
        all_keys = set().union(*(KEYS[place] for place in places))
        kinded = {"apiVersion", "kind"}  # every object has them
        assert ours - taken - kinded == set(), places
        assert all_keys - ours - refused == set(), places
        assert (taken & all_keys) - ours == set(), places


@pytest.mark.parametrize("place", [place for place in KEYS if place not in ("bindings", "outputs", "expect")])
def test_what_is_not_supported_is_refused_by_name(place: str):
    """Each key of Chainsaw's that is not taken is refused by a line that names it."""
    step: dict[str, Any] = {"try": []}
    for key in {*KEYS[place]} - supported(place):
        document = yaml.safe_load(f"{TEST}  steps: [{{try: [{{sleep: {{duration: 1s}}}}]}}]")
        spec, step = document["spec"], document["spec"]["steps"][0]
        operation = step["try"][0]
        holder = {"Test": spec, "step": step, "any operation": operation}.get(place)
        if holder is None:
            step["try"] = [{place: {key: "x"}}]
        else:
            holder[key] = "x"
        named = "operation proxy" if place == "proxy" else f"key {key}"
        with pytest.raises(ScenarioError, match=f"Chainsaw's {named} is not supported here"):
            parse([document], "file")


def test_what_is_not_supported_in_a_file_is_refused(tmp_path: Path):
    """The files of an assertion or a manifest are looked at before anything is run, too."""
    test = tmp_path / "chainsaw-test.yaml"
    test.write_text(f"{TEST}  steps: [{{try: [{{assert: {{file: assert.yaml}}}}]}}]")
    for text, mistake in (
        ("($index + `1`)", "Chainsaw's arithmetic (+) is not supported here"),
        ("(x_k8s_list(@))", "Chainsaw's function x_k8s_list is not supported here"),
        ("($values.a)", "Chainsaw's binding $values is not supported here"),
    ):
        (tmp_path / "assert.yaml").write_text(
            f"apiVersion: v1\nkind: Pod\nspec: {{~index.(containers): {{name: '{text}'}}}}"
        )
        with pytest.raises(ScenarioError, match=re.escape(f"assert.file: assert.yaml: {text}: {mistake}")):
            load_all(test)


def test_the_page_names_the_functions():
    """Each function that Chainsaw adds and that can be called is named."""
    (listed,) = re.findall(r"and of Chainsaw's (.*?)\. A call", PAGE, re.DOTALL)
    assert {*re.findall(r"`(\w+)`", listed)} == {*known_functions()} - {*Functions.FUNCTION_TABLE}


@pytest.mark.looptime
async def test_what_was_made_is_removed_from_the_last_to_the_first():
    """Each step's objects go before its `cleanup`, the last step's first; at last goes the namespace."""
    control = Control()
    result = await run(
        f"""
  steps:
  - try:
    - create: {{resource: {POD}}}
    - create: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: b}}}}}}
    cleanup: [{{error: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}}}}}}}]
  - try:
    - create: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: c}}}}}}
    cleanup: [{{assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}}}}}}}]
""",
        control,
    )

    assert result.failure == ""
    pods = "/api/v1/namespaces/t/pods"
    assert deleted(control) == [f"{pods}/c", f"{pods}/b", f"{pods}/a", "/api/v1/namespaces/t"]


@pytest.mark.looptime
async def test_what_is_to_stay_is_not_removed():
    """With `skipDelete` all stays, and a namespace that was there before stays in any case."""
    control = Control()
    spec = f"steps: [{{try: [{{apply: {{resource: {POD}}}}}]}}]"
    assert (await run(f"  skipDelete: true\n  {spec}", control)).failure == ""
    assert deleted(control) == []

    assert (await run(f"  {spec}", control)).failure == ""
    assert deleted(control) == []  # neither is new now


@pytest.mark.looptime
async def test_what_does_not_go_fails_the_test():
    """An object that a finalizer holds is reported when the timeout of the cleanup is over."""
    control = Control()
    held = "{apiVersion: v1, kind: Pod, metadata: {name: a, finalizers: [a.example/b]}}"
    result = await run(
        f"  timeouts: {{cleanup: 2s}}\n  steps: [{{try: [{{create: {{resource: {held}}}}}]}}]", control
    )

    assert "expected Pod a to be gone; found it is still there" in result.failure


@pytest.mark.looptime
async def test_an_apply_is_tried_until_its_timeout():
    """A refusal is not the end of it, as in Chainsaw; with a header the first one counts."""
    control = Control()
    unserved = "{apiVersion: v1, kind: Thing, metadata: {name: a}}"
    apply = f"{{apply: {{resource: {unserved}, timeout: 3s, expect: [{{check: {{($error): null}}}}]}}}}"
    result = await run(f"  steps: [{{try: [{apply}]}}]", control)

    assert "no such kind" in result.failure
    assert result.steps[0].seconds >= 3

    with_header = await run_with_header(f"  - {{name: one, try: [{apply}]}}\n", Control())
    assert "no such kind" in with_header.failure
    assert with_header.steps[0].seconds < 1


@pytest.mark.looptime
async def test_all_of_a_catch_is_done():
    """Operations that show go on behind one that failed; the test's `catch` is before the step's."""
    spec = f"""
  catch: [{{get: {{apiVersion: v1, kind: Pod, name: a}}}}]
  steps:
  - try:
    - create: {{resource: {POD}}}
    - assert: {{timeout: 1s, resource: {{apiVersion: v1, kind: Pod, metadata: {{name: b}}}}}}
    - sleep: {{duration: 1s}}
    catch:
    - delete: {{ref: {{apiVersion: v1, kind: Thing, name: a}}}}
    - podLogs: {{name: a}}
"""
    control = Control()
    control.server.logs = "first\nsecond\n"
    done = (await run(spec, control)).steps[0].operations

    assert [(each.block, each.kind, each.outcome) for each in done] == [
        ("try", "create", "passed"),
        ("try", "assert", "failed"),
        ("try", "sleep", "notRun"),
        ("catch", "get", "passed"),
        ("catch", "delete", "failed"),
        ("catch", "podLogs", "passed"),
    ]
    assert yaml.safe_load(done[3].shown)["metadata"]["labels"] == {"app": "a"}
    assert done[5].shown == "first\nsecond"


@pytest.mark.looptime
async def test_a_delete_that_is_to_be_refused_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    """An object whose deletion the server refuses, as expected, stays, and the operation ends at once."""

    async def refused(*_: object, **__: object) -> None:
        raise StatusError(403, "Forbidden", "protected by a webhook")

    monkeypatch.setattr(APIClient, "delete", refused)
    ref = "{apiVersion: v1, kind: Pod, name: a}"
    delete = f"{{delete: {{ref: {ref}, expect: [{{check: {{($error != null): true}}}}]}}}}"
    result = await run(
        f"  skipDelete: true\n  steps: [{{try: [{{create: {{resource: {POD}}}}}, {delete}]}}]", Control()
    )

    assert result.failure == ""
    assert result.steps[0].seconds < 1


@pytest.mark.looptime
async def test_a_write_without_an_answer_says_so(monkeypatch: pytest.MonkeyPatch):
    """A client that gives up on the server is reported as that, also where the operation has no timeout."""

    async def silent(*_: object, **__: object) -> None:
        raise TimeoutError("no answer within 60 s")

    monkeypatch.setattr(APIClient, "patch", silent)
    patch = f"{{patch: {{resource: {POD}}}}}"
    result = await run(f"  steps: [{{try: [{{create: {{resource: {POD}}}}}, {patch}]}}]", Control())
    assert "no answer within 60 s" in result.failure


@pytest.mark.parametrize(("check", "value"), [("true", "passed"), ("false", "failed")])
@pytest.mark.looptime
async def test_a_json_path_may_lead_to_true(check: str, value: str):
    """A value of YAML is compared as a JSON path prints it: true, not True."""
    wait = (
        "{wait: {apiVersion: v1, kind: Pod, name: a, timeout: 1s, "
        f"for: {{jsonPath: {{path: '{{.spec.hostNetwork}}', value: {check}}}}}}}}}"
    )
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostNetwork: true}}"
    result = await run(f"  steps: [{{try: [{{create: {{resource: {pod}}}}}, {wait}]}}]", Control())
    assert result.steps[0].operations[1].outcome == value


@pytest.mark.parametrize("name", ["/abs/x*.yaml", "a**b.yaml"])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, name: str):
    """One line names the pattern."""
    with pytest.raises(ScenarioError, match="is no pattern of files next to the scenario"):
        named_files(f"{tmp_path}/t.yaml: spec", name)


async def test_a_check_that_does_not_hold_says_what_differs():
    """The failure of a program's check names the expression and both values."""
    script = "{script: {content: echo other, check: {($stdout): expected}}}"
    result = await run(f"  steps: [{{try: [{script}]}}]", Control())
    assert "($stdout): expected 'expected', found 'other" in result.failure

"""Evidence for a production-readiness review: what components went through, and what that answers."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeskew.cli.main import main
from kubeskew.conformance.evidence.components import ComponentRun, Transitions, component_paths, transitions
from kubeskew.conformance.report import Repeating, Run
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.review import as_markdown
from kubeskew.conformance.scenario import Exemption, ExpectedFailure

GATE = "DRAExtendedResource"
REENABLED = "What happens if we reenable the feature if it was previously rolled back?"
FLIPPED = "Are there any tests for feature enablement/disablement?"
ROLLED_BACK = "Were upgrade and rollback tested? Was the upgrade->downgrade->upgrade path tested?"


def runs(component: str, *states: str) -> list[ComponentRun]:
    """Runs at `1.35`, or at `1.35 A=true` with gates."""
    parts = [state.partition(" ") for state in states]
    return [ComponentRun(component, version, gates, f"{n}") for n, (version, _, gates) in enumerate(parts)]


@pytest.mark.parametrize(
    ("states", "changes"),
    [
        pytest.param(["1.35"], Transitions(), id="nothing"),
        pytest.param(["1.35", "1.35"], Transitions(), id="restarted"),
        pytest.param(["1.35", "1.36"], Transitions(upgraded=True), id="up"),
        pytest.param(["1.36", "1.35"], Transitions(downgraded=True), id="down"),
        pytest.param(["1.35", "1.36", "1.35"], Transitions(True, True), id="there-and-back"),
        pytest.param(["1.36", "1.35", "1.36"], Transitions(True, True), id="back-and-there"),
        pytest.param(["1.35", "1.36", "1.37", "1.36", "1.37"], Transitions(True, True, True), id="and-again"),
        pytest.param([f"1.36 {GATE}=false", "1.36"], Transitions(enabled=True), id="on-by-default"),
        pytest.param([f"1.36 {GATE}=true", f"1.36 {GATE}=false"], Transitions(disabled=True), id="off"),
        pytest.param(
            [f"1.36 {GATE}=true", f"1.36 {GATE}=false", f"1.36 {GATE}=true"],
            Transitions(enabled=True, disabled=True, reenabled=True),
            id="on-again",
        ),
        pytest.param(
            [f"1.34 {GATE}=true", "1.33"], Transitions(downgraded=True, disabled=True), id="unknown-is-off"
        ),
    ],
)
def test_kinds_of_changes(states: list[str], changes: Transitions):
    """Versions and gates of one component decide; a component that does not change does not matter."""
    log = [*runs("scheduler", *states), *runs("apiserver", states[0]), *runs("driver/d", "1.30", "1.31")]

    assert transitions(component_paths(log)) == changes


@pytest.mark.parametrize(
    ("states", "changes"),
    [
        pytest.param(["1.35", "1.36"], Transitions(True, enabled=True, by_default=True), id="on"),
        pytest.param(["1.36", "1.35"], Transitions(False, True, disabled=True, by_default=True), id="off"),
        pytest.param(
            ["1.36", "1.35", "1.36"], Transitions(True, True, False, True, True, True, True), id="on-again"
        ),
        pytest.param(["1.36", "1.37"], Transitions(True), id="the-same-default"),
        pytest.param([f"1.35 {GATE}=true", "1.36"], Transitions(True), id="by-hand-before"),
        pytest.param([f"1.35 {GATE}=true", "1.35"], Transitions(disabled=True), id="taken-back"),
    ],
)
def test_a_release_may_have_another_default(states: list[str], changes: Transitions):
    """A gate that is named goes over with a release whose default is another, set by hand or not."""
    assert transitions(component_paths(runs("scheduler", *states), [GATE])) == changes
    assert transitions(component_paths(runs("scheduler", *states))).by_default is False


def test_components_come_in_the_order_of_upgrades():
    """Paths have no repetitions, and drivers, which have no Kubernetes version, have none."""
    log = [
        *runs("driver/d", "1.36"),
        *runs("kubelet/n", "1.35", "1.35"),
        *runs("apiserver-1", "1.35", "1.36"),
    ]

    assert [(path.component, path.versions) for path in component_paths(log)] == [
        ("apiserver-1", ("1.35", "1.36")),
        ("kubelet/n", ("1.35",)),
    ]


MARK = ExpectedFailure("`true`", ("looks",), "as coded", "no Pod", "kubernetes/kubernetes#1")
GAP = Exemption("`true`", ("uses it",), "there is no pod")


def flipped() -> CellResult:
    """A cell that switches a gate off and on, and fails as upstream."""
    look = OperationResult("look", "assert", 0.1, "a Pod", "no Pod | at <all>\nof 1.36", about="Pod a")
    steps = [
        StepResult("starts", [OperationResult("do", "apply", 0.1, about="Pod a")]),
        StepResult("looks", [look]),
        StepResult("uses it", not_run="nothing was bound to $uid"),
    ]
    cell = CellResult("s/flipped", "s", {}, steps, 1.0, seed=7, log_hash="abc")
    cell.expected_failures, cell.exemptions = {"looks": [MARK]}, {"uses it": [GAP]}
    cell.components = runs("scheduler", f"1.36 {GATE}=true", f"1.36 {GATE}=false", f"1.36 {GATE}=true")
    return cell


def moved() -> CellResult:
    """A cell that upgrades one of two components, and fails."""
    failed = StepResult("goes", [OperationResult("look", "assert", 0.1, "a Pod", "nothing")])
    cell = CellResult("mine/moved", "mine", {}, [failed], 1.0)
    cell.components = [*runs("apiserver", "1.35", "1.36"), *runs("scheduler", "1.35")]
    return cell


def sections(*cells: CellResult) -> dict[str, str]:
    """The document's parts by their headings."""
    run = Run("s, mine", datetime(2026, 1, 1, tzinfo=UTC), cells)
    again = Repeating(
        ["kubeskew", "matrix", "s", "mine.yaml"], {"mine": "/x y/mine.yaml"}, ["--bugs", "x=off"]
    )
    text = as_markdown(run, "0.1.0", again)
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_questions_are_those_of_the_template():
    """Each stands as a heading, in the template's order, and what is not shown is said."""
    found = sections(moved())

    assert [*found][1:4] == [REENABLED, FLIPPED, ROLLED_BACK]
    assert (
        "Cells that switch a gate on, off and on again: none of 1 (this run does not show it)."
        in found[REENABLED]
    )
    assert "Cells that upgrade components: 1 of 1 (1 failed)." in found[ROLLED_BACK]
    assert "upgrade->downgrade->upgrade path: none of 1 (this run does not show it)" in found[ROLLED_BACK]
    assert "FAILED: look: expected a Pod; found nothing" in found[ROLLED_BACK]


def test_answers_have_cells_failures_with_source_and_gaps():
    """The way of the components, what fails as upstream and why, and what was not run."""
    found = sections(flipped(), moved())

    assert (
        "Cells that switch a gate on, off and on again: 1 of 2 (1 failed as upstream, 0 failed)."
        in found[REENABLED]
    )
    assert f"| `s/flipped` | 1.36, {GATE} on → off → on | fails as upstream | 2 of 3 |" in found[REENABLED]
    assert "`s/flipped`, looks: fails as upstream: as coded (kubernetes/kubernetes#1)" in found[REENABLED]
    assert "`s/flipped`, uses it: not run: nothing was bound to $uid: there is no pod" in found[REENABLED]
    assert "s/flipped" not in found[ROLLED_BACK]
    way = f"apiserver: 1.35 → 1.36, {GATE} off → on by default; scheduler: 1.35"
    assert f"| `mine/moved` | {way} | FAILED | 1 of 1 |" in found[ROLLED_BACK]


def test_what_one_branch_of_a_fork_goes_through_counts():
    """A rollback in a fork's second branch is one, and the ways of both are reported by their names."""
    cell = CellResult("s/forked", "s", {}, [StepResult("starts", [OperationResult("do", "fork", 0.1)])], 1.0)
    on, off = f"1.36 {GATE}=true", f"1.36 {GATE}=false"
    cell.components = runs("scheduler", on)
    cell.branches = {"kept": cell.components, "rolled back": runs("scheduler", on, off)}
    found = sections(cell)

    assert "Cells that switch a gate off in a running cluster: 1 of 1 (1 passed, 0 failed)." in found[FLIPPED]
    ways = f"kept (1.36, {GATE} on); rolled back (1.36, {GATE} on → off)"
    assert f"| `s/forked` | {ways} | passed | 1 of 1 |" in found[FLIPPED]
    assert "none of 1" in found[REENABLED]


def test_defaults_count_of_gates_that_another_cell_sets_by_hand():
    """A cell that moves to a release with another default flips the gate, by default as is said."""
    cell = moved()
    found = sections(flipped(), cell)

    assert "Cells that switch a gate by moving to a release with another default: 1 of 2" in found[FLIPPED]
    assert (
        f"| `mine/moved` | apiserver: 1.35 → 1.36, {GATE} off → on by default; scheduler: 1.35 |"
        in found[FLIPPED]
    )
    assert f"Gates that count: {GATE}." in found["Evidence for a production-readiness review"]
    alone = sections(cell)
    assert "mine/moved" not in alone[FLIPPED]
    assert "name it with `--prr-gate`" in alone["Evidence for a production-readiness review"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(
            ["--prr-gate", "DRAExtendedResource"],
            "kubeskew: --prr-gate is of the file that --prr writes: name it, or leave out --prr-gate\n",
            id="no-file",
        ),
        pytest.param(
            ["--prr", "e.md", "--prr-gate", "DRAExtendedResources"],
            "kubeskew: --prr-gate DRAExtendedResources: no release has such a gate; "
            "did you mean DRAExtendedResource?\n",
            id="unknown",
        ),
    ],
)
def test_gates_of_a_review_that_cannot_be_are_wrong_usage(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
):
    """A gate needs a file to be written, and to be one of a release's."""
    with pytest.raises(SystemExit) as ended:
        main(["matrix", *arguments])

    assert (ended.value.code, capsys.readouterr().err) == (2, line)


MOVES = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: {version: "1.35", nodes: [], featureGates: ($gates.set)}
  parameters: {gates: [{name: by-hand, set: {DRAExtendedResource: true}}, {name: default, set: {}}]}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: moves}
spec:
  steps:
  - {name: goes up, try: [{upgrade: {to: "1.36"}}]}
"""


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        pytest.param(["--only", "moves/default"], "1 of 1", id="a-gate-of-the-header"),
        pytest.param(["--prr-gate", "DRAConsumableCapacity"], "2 of 2", id="a-gate-that-is-asked-for"),
    ],
)
def test_the_gates_of_a_scenario_and_those_asked_for_count(
    arguments: list[str], count: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Defaults count of what a cell that is not run sets by hand, and of what --prr-gate names."""
    monkeypatch.chdir(tmp_path)
    Path("moves.yaml").write_text(MOVES)
    with pytest.raises(SystemExit):
        main(["matrix", "moves.yaml", "--simulate", "--prr", "evidence.md", *arguments])

    kind = "Cells that switch a gate by moving to a release with another default"
    assert f"{kind}: {count} " in Path("evidence.md").read_text()


def test_each_cell_shows_its_steps_and_the_command_that_repeats_it():
    """Steps with what they asked for and found; a simulation with its seed, a file by its path."""
    found = sections(flipped(), moved())

    assert (
        "    kubeskew matrix s mine.yaml --bugs x=off\n"
        in found["Evidence for a production-readiness review"]
    )
    assert "    kubeskew matrix s --only s/flipped --simulate --seed 7 --bugs x=off\n" in found["s/flipped"]
    assert "    kubeskew matrix '/x y/mine.yaml' --only mine/moved --bugs x=off\n" in found["mine/moved"]
    assert "| starts | apply Pod a | passed |" in found["s/flipped"]
    assert "(kubernetes/kubernetes#1); found: no Pod |" in found["s/flipped"]
    assert "Log of seed 7: abc." in found["s/flipped"]


def test_what_was_found_stays_in_its_cell_of_the_table():
    """Lines, bars and angle brackets of what was found break neither the table nor the page."""
    cell = moved()
    cell.steps[0].operations[0].found = "a | b\n<script>"

    assert "found a \\| b &lt;script> |" in sections(cell)["mine/moved"]


FLIPS = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {cluster: {version: "1.36", nodes: []}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: flips}
spec:
  steps:
  - {name: goes off, try: [{gates: {set: {DRAExtendedResource: false}}}]}
  - {name: comes back, try: [{gates: {set: {DRAExtendedResource: true}}}]}
"""


def test_a_run_and_its_report_give_the_same_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`--prr` writes what a run shows; with --resume an earlier report is enough."""
    monkeypatch.chdir(tmp_path)
    Path("flips.yaml").write_text(FLIPS)
    texts = []
    for more in ([], ["--resume"]):
        with pytest.raises(SystemExit) as ended:
            main(["matrix", "flips.yaml", "--simulate", "--report", "r", "--prr", "evidence.md", *more])
        assert ended.value.code == 0
        texts.append(re.sub(r"\d{4}-\S+Z", "", Path("evidence.md").read_text()))

    assert texts[0] == texts[1]
    assert f"| `flips` | 1.36, {GATE} on → off → on | passed | 2 of 2 |" in texts[0]
    assert f"kubeskew matrix {tmp_path}/flips.yaml --only flips --simulate --seed 0" in texts[0]


def test_evidence_needs_a_directory(capsys: pytest.CaptureFixture[str]):
    """A file that cannot be written is refused before anything runs."""
    with pytest.raises(SystemExit) as ended:
        main(["matrix", "--prr", "/nowhere/evidence.md"])

    assert (ended.value.code, capsys.readouterr().err) == (
        2,
        "kubeskew: --prr /nowhere/evidence.md: there is no directory /nowhere\n",
    )

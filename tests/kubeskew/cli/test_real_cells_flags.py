"""`run` and `matrix` with real programs: flags that go together, and the shown lanes of a cell."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cli.commands.results import show_results
from kubeskew.cli.commands.run_flags import RunFlags
from kubeskew.cli.commands.scenarios import assigned, cells_of, selected
from kubeskew.cli.main import main
from kubeskew.conformance import matrix_runs
from kubeskew.conformance.evidence.components import ComponentRun
from kubeskew.conformance.report import Run, as_html, as_json, as_junit, write
from kubeskew.conformance.results import CellResult, LaneDifference, OperationResult, SideBySide, StepResult
from kubeskew.conformance.resumption import digest_of, taken_over
from kubeskew.conformance.runner import run_cell
from kubeskew.conformance.scenario import Cell

CELL = "kep-5004/quota/1.36"
SCENARIO = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: {version: "1.36", nodes: []}
  parameters: {number: ["1", "2"]}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: mine}
spec:
  steps:
  - name: one
    try: [{apply: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}}}]
"""
PROGRAM = "kube-scheduler v1.36.3"
PROGRAMS = [ComponentRun("scheduler", "1.36", "", "", program=PROGRAM)]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


REAL = ["--real", "scheduler", "--binaries", "."]
RUN, MATRIX = ["run", CELL], ["matrix", CELL]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*RUN, "--binaries", "."], "--binaries has real programs: name the components"),
        ([*RUN, "--real", "scheduler"], "--real needs a folder of programs: name it with --binaries"),
        ([*RUN, "--real", "scheduler", "--binaries", "none"], "--binaries: there is no folder none"),
        ([*RUN, "--real", "schedule", "--binaries", "."], "did you mean scheduler?"),
        ([*RUN, *REAL, "--simulate"], "leave out --real or --simulate"),
        ([*RUN, *REAL, "--dask", "a"], "leave out --real or --dask"),
        ([*RUN, *REAL, "--kubeconfig", __file__], "--real: the cluster of --kubeconfig"),
        ([*RUN, *REAL, "--simulate", "--faults", "p"], "--real: cannot be combined with --faults"),
        (["explore", CELL, "--real", "scheduler"], "--real: explorations are simulations"),
        (["explore", CELL, "--binaries", "."], "--binaries: explorations are simulations"),
        ([*MATRIX, "--against-emulated"], "--against-emulated compares with real programs: name"),
        ([*MATRIX, "--record-real", "real"], "--record-real keeps the outcomes of real programs"),
        ([*MATRIX, "--compare-real", "none"], "there is no directory none: `kubeskew matrix --record-real`"),
        ([*MATRIX, *REAL, "--record"], "--real: the record is of emulated cells"),
        ([*MATRIX, "--add-outcomes"], "--add-outcomes says how --record-real DIR records"),
        ([*MATRIX, "--bugs", "k8s-134773=off", "--compare-real", "."], "--bugs: real programs have the bugs"),
    ],
)
def test_flags_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
):
    """Each mistake is one line, and nothing is run."""
    monkeypatch.delenv("KUBESKEW_BINARIES", raising=False)
    code, out, err = call(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_folder_of_the_environment_needs_no_components(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The environment may name a folder for all commands; --real takes it."""
    monkeypatch.setenv("KUBESKEW_BINARIES", "/nowhere")
    assert call(capsys, "run", CELL, "--list")[0] == 0
    code, _, err = call(capsys, "run", CELL, "--list", "--real", "scheduler")
    assert (code, "there is no folder /nowhere" in err) == (2, True)


def asked(folder: Path, *, both: bool = True) -> RunFlags:
    return RunFlags(
        only=(), shard=(1, 2), listing=False, report=None, resume=False, jobs=1, dask=None, keep=False,
        simulate=False, seed=None, bugs={}, verbose=False, output="table", binaries=folder,
        real="controller-manager,scheduler", against_emulated=both,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A scenario, and a folder of programs."""
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    (tmp_path / "builds" / "1.36").mkdir(parents=True)
    (tmp_path / "builds" / "1.36" / "kube-scheduler").write_text("build 1")
    return tmp_path


def test_cells_and_commands_have_the_programs(folder: Path):
    """Each cell's cluster takes them, the shards' command and those that repeat a run or a cell name them."""
    flags = asked(folder / "builds")
    selection = selected([str(folder / "mine.yaml")], None)
    cells = cells_of(selection, flags)
    real = {"binaries": str(folder / "builds"), "real": ["scheduler", "controller-manager"]}
    assert cells[0].cluster() == {"version": "1.36", "nodes": [], **real}
    emulated = cells[0].emulated()
    assert emulated is not None
    assert emulated.cluster() == {"version": "1.36", "nodes": []}
    assert emulated.emulated() is None

    assignment = assigned(selection, cells, flags, [str(folder / "mine.yaml")], None)
    words = f"--binaries {folder}/builds --real scheduler,controller-manager --against-emulated"
    assert assignment.again.run().endswith(f"--shard 1/2 {words}")
    assert assignment.part is not None
    assert assignment.part.command.endswith(f"mine.yaml {words}")
    assert assignment.again.cell(result("mine/1")).endswith(f"--only mine/1 {words}")


def result(name: str, *found: str, differences: Sequence[LaneDifference] | None = None) -> CellResult:
    """A cell with a step per text; with differences, it was also run emulated, where nothing failed."""
    steps = [
        StepResult(f"step {number}", [OperationResult("look", "assert", 0.1, "a Pod" if text else "", text)])
        for number, text in enumerate(found, 1)
    ]
    made = CellResult(name, "mine", {}, steps, 1.0, components=PROGRAMS)
    if differences is not None:
        other = CellResult(name, "mine", {}, [StepResult(step.name) for step in steps], 1.0)
        made.side_by_side = SideBySide(other, differences)
    return made


def event(text: str) -> LaneDifference:
    return LaneDifference("step 1", "event", "Normal Scheduled", text, "absent")


def report(*cells: CellResult) -> dict[str, Any]:
    return as_json(Run("mine", datetime(2026, 1, 1, tzinfo=UTC), cells))


def shown(capsys: pytest.CaptureFixture[str], *cells: CellResult) -> tuple[int, str]:
    code = show_results(report(*cells), "table", None, None)
    return code, capsys.readouterr().out


def test_cells_that_came_out_alike_are_one_line(capsys: pytest.CaptureFixture[str]):
    """Of two hundred cells that do not differ, nothing is shown but their number; the exit code is 0."""
    code, out = shown(capsys, *(result(f"mine/{number}", "", differences=[]) for number in range(200)))
    assert code == 0
    assert out.splitlines()[1] == "200 cells came out alike, 0 with shared differences alone, 0 with others"
    assert len(out.splitlines()) < 10
    assert f"Real programs: {PROGRAM} in 200 cells" in out


def test_differences_are_shown_once(capsys: pytest.CaptureFixture[str]):
    """Those of one cell stand under its name, those of several once for all; either makes the exit code 1."""
    common, own = event("of both"), event("of one")
    failed = LaneDifference("step 2", "result", "", "failed: no", "passed")
    code, out = shown(
        capsys,
        result("mine/1", "", differences=[common, own]),
        result("mine/2", "", differences=[common]),
        result("mine/3", "", "no", differences=[failed]),
    )
    assert code == 1
    assert out.splitlines()[:12] == [
        "CELL     REAL     EMULATED   DIFFERENCES   SHARED",
        "mine/1   passed   passed     1             1",
        "mine/3   FAILED   passed     1             0",
        "",
        "mine/1",
        "  step 1: event Normal Scheduled: real: of one; emulated: absent",
        "",
        "mine/3",
        "  real: failed: step 2: look: expected a Pod; found no",
        "  step 2: result: real: failed: no; emulated: passed",
        "",
        "in 2 cells: event Normal Scheduled: real: of both; emulated: absent",
    ]
    assert "0 cells came out alike, 1 with shared differences alone, 2 with others" in out
    assert shown(capsys, result("mine/2", "", differences=[common]))[0] == 1


def test_what_a_program_cannot_do_is_counted_by_reason(capsys: pytest.CaptureFixture[str]):
    """Steps that a real program cannot do make no cell fail, and are shown with the reason."""
    cells = [result(f"mine/{number}", "", differences=[]) for number in range(2)]
    for cell in cells:
        cell.steps.append(StepResult("switches", impossible=f"{PROGRAM} runs here, and no"))
    code, out = shown(capsys, *cells)
    assert code == 0
    assert f"2 steps of 2 cells not run: {PROGRAM} runs here, and no" in out


def test_the_page_has_both_lanes(folder: Path):
    """The page lists the cells that differ, with both verdicts, and folds the others; texts are escaped."""
    cells = [
        result("mine/1", "", differences=[event("<b>")]),
        result("mine/2", "no", differences=[]),
        *(result(f"mine/{number}", "", differences=[]) for number in range(3, 9)),
    ]
    page = as_html(Run("mine", datetime(2026, 1, 1, tzinfo=UTC), cells)).partition("<script")[0]
    assert "Side by side <small>8 cells with real programs and emulated</small>" in page
    assert "real: &lt;b&gt;; emulated: absent" in page
    assert "6 cells came out alike" in page
    assert f"<td>{PROGRAM}</td><td>8</td>" in page

    junit = as_junit(Run("mine", datetime(2026, 1, 1, tzinfo=UTC), cells)).decode()
    assert 'failures="2"' in junit
    assert 'message="step 1: event Normal Scheduled: real: &lt;b&gt;; emulated: absent"' in junit


@pytest.mark.parametrize(("differences", "taken"), [([], 1), ([event("x")], 0), (None, 0)])
def test_resuming_takes_cells_over_that_came_out_alike(folder: Path, differences, taken):
    """A cell whose lanes differ, or that was not run both ways, is run again; and so are cells of other
    programs."""
    cells = cells_of(selected([str(folder / "mine.yaml")], None), asked(folder / "builds"))
    done = replace(
        result(cells[0].name, "", differences=differences),
        scenario=cells[0].scenario.name,
        parameters=cells[0].parameters,
        digest=digest_of(cells[0].scenario),
    )
    if done.side_by_side is not None:
        done.side_by_side.emulated.parameters = cells[0].parameters
    write(Run("mine", datetime(2026, 1, 1, tzinfo=UTC), [done]), folder / "report")

    found = taken_over(folder / "report", "mine", cells)
    assert len(found) == taken
    assert report(*found)["cells"] == report(done)["cells"] * taken
    (folder / "builds" / "1.36" / "kube-scheduler").write_text("build 2")
    assert taken_over(folder / "report", "mine", cells) == []


class Noted:
    """Takes note of what it is told of cells."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.results: list[CellResult] = []

    def on_moment(self, cell: Cell, moment: Any) -> None:
        self.moments.append(moment.text)

    def ended(self, result: CellResult) -> None:
        self.results.append(result)

    def say(self, text: str) -> None:
        raise AssertionError(text)


async def test_a_cell_is_run_both_ways(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The cell with real programs is run first, then the emulated one; the cell ends with both."""
    clusters: list[Mapping[str, Any]] = []

    async def run(cell: Cell, _control: Any, _clock: Any, on_moment: Any) -> CellResult:
        clusters.append(cell.cluster())
        on_moment(matrix_runs.Moment("one"))
        return result(cell.name, "" if "real" in cell.cluster() else "no Pod")

    assert run_cell.__name__ == "run_cell"
    monkeypatch.setattr(matrix_runs, "run_cell", run)
    [cell, _] = cells_of(selected([str(folder / "mine.yaml")], None), asked(folder / "builds"))
    audience: Any = Noted()
    control: Any = lambda _cell, _progress: None  # noqa: E731
    clock: Any = None
    [found] = await matrix_runs.run_cells([cell], control, clock, audience)

    assert ["real" in each for each in clusters] == [True, False]
    assert audience.moments == ["one", "emulated: one"]
    assert audience.results == [found]
    assert found.digest == digest_of(cell.scenario)
    assert found.side_by_side is not None
    assert [str(each) for each in found.side_by_side.differences] == [
        "step 1: result: real: passed; emulated: failed: look: expected a Pod; found no Pod"
    ]


@pytest.mark.parametrize("flags", [(), ("-o", "json")])
def test_simulated_cells_are_held_against_a_recording(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
):
    """A step that came to something else with real programs is shown, and the exit code is 1."""
    recorded = {"result": "failed", "steps": {"one": "failed: no"}, "real": {"scheduler": [PROGRAM]}}
    (folder / "real").mkdir()
    (folder / "real" / "outcomes-1.36.json").write_text(json.dumps({"mine/1": {"scheduler": recorded}}))
    arguments = (
        "matrix",
        folder / "mine.yaml",
        "--simulate",
        "--jobs",
        "1",
        "--compare-real",
        folder / "real",
    )
    code, out, _ = call(capsys, *arguments, *flags)

    assert code == 1
    line = f"mine/1: one: was failed: no with {PROGRAM}, is "
    if flags:
        found = json.loads(out)
        assert [each.startswith(line) for each in found["realDifferences"]] == [True]
        assert found["notRecordedReal"] == ["mine/2"]
    else:
        assert f"differs from real programs: {line}" in out
        assert "not recorded with real programs: mine/2" in out
        assert "1 cells compared with real programs, 1 outcomes differ" in out

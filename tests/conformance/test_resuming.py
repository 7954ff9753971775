"""`--resume`: what of an earlier run's report still holds, and that no failed write costs a report."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cli.main import main
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.comparison import Difference, Divergence, Record
from kubeskew.conformance.evidence.components import ComponentRun, FaultMoment
from kubeskew.conformance.evidence.lives import LifeEvent, ObjectLife, PodLife
from kubeskew.conformance.evidence.nodes import DriverCall
from kubeskew.conformance.matrix import of_scenarios
from kubeskew.conformance.report import Run, as_html, as_json, as_junit, write
from kubeskew.conformance.results import CellResult, OperationResult, StepResult
from kubeskew.conformance.resumption import digest_of, digest_of_package, taken_over
from kubeskew.conformance.scenario import Cell

MINE = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: {}
  parameters: {naming: [{name: a, resource: x}, {name: b, resource: y}], part: {subsets: [p]}}
  baseline: {part: all}
  expectedFailures:
  - {when: (`true`), steps: [looks], found: no Pod, reason: as upstream, source: kubernetes/kubernetes#1}
  notRun: [{when: (`true`), steps: [uses it], reason: there is no pod}]
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: mine}
spec:
  steps:
  - {name: looks, try: [{create: {file: pod.yaml}}]}
  - {name: uses it, needs: looks, try: [{sleep: {duration: 1s}}]}
"""


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod}")
    (tmp_path / "mine.yaml").write_text(MINE)
    return read(tmp_path)


def read(folder: Path) -> list[Cell]:
    return of_scenarios([str(folder / "mine.yaml")]).cells()


def ready(cell: Cell, *, failed: bool = False) -> CellResult:
    """A result with something of everything that a report shows."""
    difference = Difference("missing", "pods", "ns", "a", "status.phase", "Running", 7, "t", "kubelet 1.36")
    look = OperationResult("look", "create", 0.25, "a Pod", "no Pod at all", about="Pod a")
    broken = OperationResult("tidy", "delete", 0.5, "it", "not <it>", block="finally", broken=True)
    left = OperationResult("more", "assert", 0.0, not_run="look failed")
    return CellResult(
        *(cell.name, "mine", cell.parameters),
        [
            StepResult(
                "looks", [look, *([broken] if failed else []), left], [{"revision": 7}], revisions=(3, 9)
            ),
            StepResult("uses it", not_run="it needs the step 'looks', which failed"),
        ],
        seconds=1.5,
        expected_failures=cell.expected_failures(),
        exemptions=cell.exemptions(),
        observations={"claims": 2},
        baseline=cell.baseline,
        components=[ComponentRun("apiserver", "1.36", "A=true", "2026-01-01T00:00:00.5Z", "", "killed")],
        branches={"kept": [ComponentRun("apiserver", "1.36", "A=false", "2026-01-01T00:00:00.5Z")]},
        objects=[ObjectLife("nodes", "", "n", "v", "t", "", [LifeEvent(3, "t", "created", "kubelet")])],
        calls=[DriverCall("t", "n", "gpu.example.com", "NodePrepareResources", "ns", "c", "w")],
        logs={"scheduler": "it went"},
        pods=[PodLife("ns", "a", "u", "n", [LifeEvent(5, "2026-01-01T00:00:01.000Z", "created", "kubectl")])],
        faults=[FaultMoment(6, "2026-01-01T00:00:01.000Z", "scheduler", "fired", "lost")],
        began="2026-01-01T00:00:00Z",
        ended="2026-01-01T00:00:02Z",
        record=Record([3], "abc"),
        divergence=Divergence("mine/a/all", "looks", [difference], 1),
        digest=digest_of(cell.scenario),
    )


def reported(folder: Path, *results: CellResult, title: str = "mine") -> Run:
    run = Run(title, datetime(2026, 1, 1, tzinfo=UTC), results)
    write(run, folder / "report")
    return run


def names(folder: Path, cells: list[Cell]) -> list[str]:
    return [result.name for result in taken_over(folder / "report", "mine", cells)]


def test_what_is_taken_over_is_reported_as_it_was(tmp_path: Path, cells: list[Cell]):
    """JSON, JUnit and page of a run that takes everything over are those of the run before."""
    before = reported(tmp_path, *map(ready, cells))
    after = Run(before.title, before.started, taken_over(tmp_path / "report", "mine", cells))

    assert as_json(after) == as_json(before)
    assert as_junit(after) == as_junit(before)
    assert as_html(after) == as_html(before)


def test_what_failed_is_run_again(tmp_path: Path, cells: list[Cell]):
    """A cell that failed is run again, for its cause may be gone; one that was to fail is taken over."""
    results = [ready(cell, failed=cell.name == "mine/b/none") for cell in cells]
    assert [result.outcome for result in results] == ["expected", "expected", "expected", "failed"]
    reported(tmp_path, *results)

    # b/none is compared with b/all: they are run together
    assert names(tmp_path, cells) == ["mine/a/all", "mine/a/none"]


@pytest.mark.parametrize("file", ["mine.yaml", "pod.yaml"])
def test_a_changed_file_is_run_again(tmp_path: Path, cells: list[Cell], file: str):
    """A cell depends on its scenario's file and on those that the file names."""
    reported(tmp_path, *map(ready, cells))
    assert names(tmp_path, cells) == [cell.name for cell in cells]
    (tmp_path / file).write_text((tmp_path / file).read_text() + "\n# changed\n")

    assert names(tmp_path, read(tmp_path)) == []


def test_other_code_of_kubeskew_runs_everything(
    tmp_path: Path, cells: list[Cell], monkeypatch: pytest.MonkeyPatch
):
    """A result of other code says nothing of this one, be it a release or an edited checkout."""
    package = tmp_path / "package"
    (package / "scheduler").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "scheduler" / "queue.py").write_text("size = 1")
    monkeypatch.setattr("kubeskew.__file__", str(package / "__init__.py"))
    digest_of_package.cache_clear()
    reported(tmp_path, *map(ready, cells))
    assert names(tmp_path, cells) == [cell.name for cell in cells]

    (package / "scheduler" / "queue.py").write_text("size = 2")
    digest_of_package.cache_clear()
    assert names(tmp_path, cells) == []
    digest_of_package.cache_clear()


@pytest.mark.parametrize(
    ("unready", "taken"),
    [
        ("mine/a/all", ["mine/b/all", "mine/b/none"]),  # nothing was compared with it
        ("mine/a/none", ["mine/b/all", "mine/b/none"]),  # it is to be compared
        (None, ["mine/a/all", "mine/a/none", "mine/b/all", "mine/b/none"]),
    ],
)
def test_a_cell_and_its_baseline_are_run_together(
    tmp_path: Path, cells: list[Cell], unready: str | None, taken: list[str]
):
    """A cell that was not ready runs again, and so does what it is compared with."""
    results = [ready(cell) for cell in cells]
    for result in results:
        result.digest = "" if result.name == unready else result.digest
    reported(tmp_path, *results)
    assert names(tmp_path, cells) == taken


def test_without_a_report_everything_is_run(tmp_path: Path, cells: list[Cell]):
    """The first run of many can be asked to go on, too."""
    assert names(tmp_path, cells) == []


def _later_format(report: Any) -> None:
    report["formatVersion"] = 2


def _other_run(report: Any) -> None:
    report["title"] = "matrix full"


def _other_cells(report: Any) -> None:
    report["cells"][0]["name"] = "mine/c"


def _no_steps(report: Any) -> None:
    del report["cells"][0]["steps"]


def _no_cell(report: Any) -> None:
    report["cells"] = [7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_later_format, "its formatVersion is 2, this kubeskew reads 1"),
        (_other_run, "this is a report of 'matrix full', not of 'mine'"),
        (_other_cells, "it has cells that were not asked for, such as mine/c"),
        (_no_steps, r"this report is damaged \(it lacks steps\)"),
        (_no_cell, "this report is damaged"),
    ],
)
def test_a_report_that_does_not_fit_is_refused(
    tmp_path: Path, cells: list[Cell], change: Callable[[Any], None], message: str
):
    """One line says what it is and what to do."""
    reported(tmp_path, *map(ready, cells))
    path = tmp_path / "report" / "report.json"
    report = json.loads(path.read_text())
    change(report)
    path.write_text(json.dumps(report))

    with pytest.raises(ScenarioError, match=message):
        names(tmp_path, cells)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_the_command_leaves_a_damaged_report_as_it_is(
    tmp_path: Path, cells: list[Cell], capsys: pytest.CaptureFixture[str], text: str
):
    """Exit status 2 and one line, before anything is started or written."""
    path = tmp_path / "report" / "report.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["matrix", str(tmp_path / "mine.yaml"), "--report", str(path.parent), "--resume"])

    error_output = capsys.readouterr().err
    assert (ended.value.code, path.read_text()) == (2, text)
    assert error_output.startswith(f"kubeskew: {path}: this report is damaged")
    assert error_output.count("\n") == 1


def test_a_run_goes_on_with_a_report_only(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """`--resume` needs the directory of the report."""
    with pytest.raises(SystemExit) as ended:
        main(["matrix", "--resume"])
    assert (ended.value.code, "--report" in capsys.readouterr().err) == (2, True)


def test_a_full_disk_leaves_the_report_of_before(
    tmp_path: Path, cells: list[Cell], monkeypatch: pytest.MonkeyPatch
):
    """All three files are written before the first takes its place; nothing else is left behind."""
    reported(tmp_path, ready(cells[0]))
    before = {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir()}
    synced: list[int] = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        reported(tmp_path, *map(ready, cells))
    assert {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir()} == before

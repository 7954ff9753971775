"""`kubeskew matrix merge`: the reports of shards made into one."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cli.main import main

pytestmark = pytest.mark.xdist_group("merge")  # shards are made once

SCENARIO = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: {version: ($release), nodes: []}
  parameters:
    out: {subsets: [scheduler, kubelet]}
    release: ["1.36", "1.35"]
  baseline: {out: all}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: mine}
spec:
  steps:
  - name: it is made
    try:
    - create:
        resource:
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: a}
          data: {made: ($release), out: (to_string($out.out))}
  - name: it is of 1.36
    try:
    - assert:
        resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {made: "1.36"}}
        timeout: 1s
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["matrix", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def shard(folder: Path, number: int, of: int, *flags: str, name: str = "") -> Path:
    """Runs a shard of the scenario in the folder, simulated; returns where its report is."""
    report = folder / (name or f"report-{number}-of-{of}")
    arguments = ["matrix", str(folder / "mine.yaml"), "--simulate", "--jobs", "1", *flags]
    with pytest.raises(SystemExit):
        main([*arguments, "--shard", f"{number}/{of}", "--report", str(report)])
    return report


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merging")
    (folder / "mine.yaml").write_text(SCENARIO)
    for number in (1, 2):
        shard(folder, number, 2)
    return folder


@pytest.fixture
def shards(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Copies of both shards' reports, to be spoiled."""
    one, two = (Path(shutil.copytree(folder / f"report-{n}-of-2", tmp_path / f"report-{n}")) for n in (1, 2))
    return one, two


def without_times(value: dict[str, Any]) -> dict[str, Any]:
    """Returns a report without what depends on the clock: when it began, and the sum of rounded seconds."""
    return {key: each for key, each in value.items() if key not in {"seconds", "started"}}


def changed(report: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((report / "report.json").read_text())
    change(value)
    (report / "report.json").write_text(json.dumps(value))


def test_merged_shards_are_the_report_of_one_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """JSON, JUnit and exit code are those of a run of all cells, with failing sets and comparisons."""
    arguments = [folder / "mine.yaml", "--simulate", "--jobs", "1"]
    code, _, _ = call(capsys, *arguments, "--report", tmp_path / "one")
    reports = [folder / "report-2-of-2", folder / "report-1-of-2"]
    assert call(capsys, "merge", *reports, "--report", tmp_path / "both", "-o", "json")[0] == code == 1

    one, both = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("one", "both"))
    assert without_times(both) == without_times(one)
    assert {cell["result"] for cell in both["cells"]} == {"passed", "failed"}
    assert [cell["divergence"] is not None for cell in both["cells"] if cell["baseline"]] == [True] * 6
    assert both["seconds"] == pytest.approx(sum(cell["seconds"] for cell in both["cells"]), abs=0.01)
    names = [
        [case.get("name") for case in ET.parse(tmp_path / name / "junit.xml").getroot()[0]]
        for name in ("one", "both")
    ]
    assert names[0] == names[1]
    assert (tmp_path / "both" / "index.html").stat().st_size > 1000


def test_a_merged_report_is_gone_on_with(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """--resume takes over from a merged report what passed, as from that of one run."""
    reports = [folder / "report-1-of-2", folder / "report-2-of-2"]
    call(capsys, "merge", *reports, "--report", tmp_path / "both")
    resume = ["--simulate", "--jobs", "1", "--resume", "--report", tmp_path / "both"]

    assert "4 of 8 cells taken over" in call(capsys, folder / "mine.yaml", *resume)[2]


def test_merged_shards_are_compared_as_one_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """--compare finds of merged shards what it finds of a run of all cells, and the exit code says so."""
    one = [folder / "mine.yaml", "--simulate", "--jobs", "1", "--compare", "-o", "json"]
    both = ["merge", folder / "report-1-of-2", folder / "report-2-of-2", "--report", tmp_path / "both"]
    both += ["--compare", "-o", "json"]
    record = tmp_path / "outcomes.json"
    differences = json.loads(call(capsys, *one, "--outcomes", record)[1])["differences"]
    assert len(differences) == 8
    assert json.loads(call(capsys, *both, "--outcomes", record)[1])["differences"] == differences

    names = [difference.partition(": ")[0] for difference in differences]
    steps = {"it is made": "passed", "it is of 1.36": "passed"}
    record.write_text(json.dumps({name: {"result": "passed", "steps": steps} for name in names}))
    code, output, _ = call(capsys, *one, "--outcomes", record)
    differences = json.loads(output)["differences"]
    assert {line.partition(": was ")[2].split(": ")[0] for line in differences} == {"passed, is failed"}
    merged = call(capsys, *both, "--outcomes", record)
    assert (merged[0], json.loads(merged[1])["differences"]) == (code, differences)
    assert code == 1


def test_a_review_of_merged_shards_is_that_of_one_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """--prr writes the same document, but for the time at which the run began."""
    one, both = tmp_path / "one.md", tmp_path / "both.md"
    call(capsys, folder / "mine.yaml", "--simulate", "--jobs", "1", "--prr", one)
    reports = [folder / "report-2-of-2", folder / "report-1-of-2"]
    call(capsys, "merge", *reports, "--report", tmp_path / "both", "--prr", both)

    def document(path: Path) -> str:
        return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", path.read_text(), count=1)

    assert document(both) == document(one)
    assert "FAILED" in document(one)


def test_other_scenarios_than_the_shards_are_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """--compare reads scenarios again, which must be what the shards ran; without it nothing is read."""
    mine = tmp_path / "mine.yaml"
    mine.write_text((folder / "mine.yaml").read_text())
    reports = [shard(tmp_path, number, 2) for number in (1, 2)]
    mine.write_text(mine.read_text().replace("it is made", "it was made"))
    capsys.readouterr()

    output = refused(capsys, tmp_path / "new", *reports, "--compare")
    assert "the shards are of something else than there is here: its scenario mine has other files" in output
    assert call(capsys, "merge", *reports, "--report", tmp_path / "new")[0] == 1


def refused(capsys: pytest.CaptureFixture[str], target: Path, *reports: Path | str) -> str:
    """Merges what cannot be merged; returns the one line that says so."""
    code, output, error = call(capsys, "merge", *reports, "--report", target)
    assert (code, output, error.count("\n"), target.exists()) == (2, "", 1, False)
    return error


def test_each_shard_must_be_there_once(
    shards: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A shard that is missing and one that is there twice are named."""
    one, two = shards
    copy = Path(shutil.copytree(one, tmp_path / "copy"))

    message = refused(capsys, tmp_path / "new", one)
    assert message == "kubeskew: shard 2/2 is missing: name the reports of all 2\n"
    message = refused(capsys, tmp_path / "new", one, two, copy)
    assert message == f"kubeskew: {one} and {copy} are both of shard 1/2: leave one out\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda report: report["shard"].update(build="0" * 64), "another kubeskew made it (build 0000"),
        (lambda report: report["shard"]["scenarios"].update(mine="0"), "its scenario mine has other files"),
        (lambda report: report["shard"].update(of=3), "it is one of 3 shards, not of 2"),
        (lambda report: report["shard"].update(command="x"), "`x`, not `kubeskew matrix "),
        (
            lambda report: report["shard"].update(cells=[*report["shard"]["cells"], "a"]),
            "its cells are others",
        ),
    ],
)
def test_shards_must_be_of_one_run(
    shards: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], object],
    why: str,
):
    """A shard of another commit, profile, seed or count is refused, and what differs is said."""
    one, two = shards
    changed(two, change)

    assert refused(capsys, tmp_path / "new", one, two).startswith(
        f"kubeskew: {two} is of another run than {one}: {why}"
    )


def test_the_seed_is_the_run_s(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Shards with different seeds are of different runs."""
    other = shard(folder, 2, 2, "--seed", "7", name="other-seed")
    capsys.readouterr()

    assert "--seed 7`, not `" in refused(capsys, tmp_path / "new", folder / "report-1-of-2", other)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda report: report.update(shard=None), "this is no report of a shard"),
        (lambda report: report.pop("started"), "damaged (it lacks started)"),
        (lambda report: report["shard"].pop("number"), "this report is damaged ("),
        (lambda report: report["cells"][0].pop("steps"), "damaged (it lacks steps)"),
        (lambda report: report["cells"][0].update(name="x"), "damaged (the cell x is none of its run)"),
        (lambda report: report["cells"].pop(), "no report has the cell mine/"),
        (lambda report: report.update(formatVersion=99), "its formatVersion is 99, this kubeskew reads 1"),
    ],
)
def test_damaged_reports_are_reported(
    shards: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], object],
    why: str,
):
    """A report that lacks something is named, with what it lacks."""
    one, two = shards
    changed(two, change)

    assert why in refused(capsys, tmp_path / "new", one, two)


def test_overlapping_and_unreadable_reports_are_reported(
    shards: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A cell in two shards, a report that is no JSON or is not there, and one that would be lost."""
    one, two = shards
    theirs = json.loads((one / "report.json").read_text())["cells"][0]
    changed(two, lambda report: report["cells"].append(theirs))
    message = refused(capsys, tmp_path / "new", one, two)
    assert f"{one} and {two} both have the cell {theirs['name']}: one of them is damaged" in message

    (two / "report.json").write_text("{")
    assert f"{two}/report.json: this report is damaged" in refused(capsys, tmp_path / "new", one, two)
    (two / "report.json").unlink()
    assert f"there is no {two}/report.json" in refused(capsys, tmp_path / "new", one, two)
    code, _, message = call(capsys, "merge", one, two, "--report", one)
    assert (code, message) == (
        2,
        f"kubeskew: --report {one}: this is the report of a shard: name another directory\n",
    )


def test_an_interrupted_shard_does_not_become_green(
    shards: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Cells that were not run, because their shard was interrupted, fail the merged run."""
    for report in shards:
        changed(report, _interrupt)

    code, output, _ = call(capsys, "merge", *shards, "--report", tmp_path / "new")
    assert (code, "8 not run, 0 failed" in output) == (1, True)


def _interrupt(report: dict[str, Any]) -> None:
    for cell in report["cells"]:
        cell.update(result="notRun", passed=False, stepsRun=0, stepsNotRun=len(cell["steps"]))
        for step in cell["steps"]:
            step.update(result="notRun", red=True, why="the run was interrupted")

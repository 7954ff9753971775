"""`--dask ADDRESS` of matrix and explore: what --jobs does, done by the workers of a Dask cluster."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask_processes import Certificates, DaskProcesses, is_running, running_dask
from until import until

from kubeskew.cli.main import main

CELLS = ["kep-5004/version-paths", "kep-5004/names", "--only", "*/1.35-1.36-1.37-1.36/*", "--only", "*/1.36"]
CELL = "kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35"
COMMAND = [sys.executable, "-m", "kubeskew"]

group = pytest.mark.xdist_group("dask")

HELD = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: {version: "1.36", nodes: []}
  parameters: {number: ["1", "2"]}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: held}
spec:
  timeouts: {exec: 120s}
  steps:
  - name: it waits until it may go on
    try:
    - script:
        env: [{name: NUMBER, value: ($number)}]
        content: echo $PPID > begun-$NUMBER; read line < may-go-on-$NUMBER
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["matrix", "--dask", "a", "--jobs", "2"], "--jobs is of this machine: leave it out"),
        (["explore", CELL, "--dask", "a", "--jobs", "2"], "--jobs is of this machine: leave it out"),
        (["matrix", "--dask-tls-ca-file", __file__], "--dask-tls-… is of a Dask cluster: name its scheduler"),
        (["matrix", "--dask", "a", "--keep"], "--keep: the directories would be on the machines of --dask"),
        (["explore", "none.json", "--dask", "a"], "--dask: a finding's file says what is run; leave it out"),
    ],
)
def test_what_cannot_stand_next_to_dask(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str):
    """Flags that are of this machine are refused in one line."""
    code, out, err = call(capsys, *arguments)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_without_dask_the_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """One line says how to install Dask where it is not there."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    for module in ("dask_pool", "dask_worker"):
        monkeypatch.delitem(sys.modules, f"kubeskew.conformance.dealing.{module}", raising=False)
    code, out, err = call(capsys, "matrix", *CELLS, "--simulate", "--dask", "tcp://127.0.0.1:1")

    assert (code, out) == (2, "")
    reason = "which is not there (no module distributed)"
    assert err == f"kubeskew: --dask needs Dask, {reason}: pip install 'kubeskew[dask]'\n"


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with running_dask(tmp_path_factory.mktemp("dask")) as processes:
        processes.start_worker()
        processes.start_worker()
        yield processes


def report(directory: Path) -> dict[str, Any]:
    """Returns a report without when the run began and how it was called."""
    value = json.loads((directory / "report.json").read_text())
    return {key: each for key, each in value.items() if key not in {"started", "command"}}


@group
@pytest.mark.people
def test_a_simulated_matrix_is_the_same(
    dask: DaskProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Verdicts, logs and evidence are those of --jobs, and each cell is reported as it ends."""
    call(capsys, "matrix", *CELLS, "--simulate", "--jobs", "2", "--report", tmp_path / "jobs")
    to = ["--dask", dask.address, "--report", tmp_path / "dask"]
    code, _, error_output = call(capsys, "matrix", *CELLS, "--simulate", *to, "-v")

    assert code == 0
    assert report(tmp_path / "dask") == report(tmp_path / "jobs")
    names = [cell["name"] for cell in report(tmp_path / "dask")["cells"]]
    assert len(names) == 3
    for name in names:
        assert re.search(rf"{re.escape(name)}: (passed|fails as upstream) in ", error_output)
        assert f"· {name}: starting the cluster" in error_output or "/version-paths/" in name


@group
@pytest.mark.people
def test_workers_are_reached_over_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Cells are run over TLS, with certificates from flags or from Dask's configuration; who has none, or
    those of somebody else, is reported in one line."""
    ours, others = (Certificates(tmp_path, name) for name in ("ours", "others"))
    with running_dask(tmp_path / "dask", ours) as dask:
        dask.start_worker()
        assert dask.address.startswith("tls://")
        command = ["matrix", "--profile", "first", "--simulate", "--dask", dask.address]
        code, out, _ = call(capsys, *command, *ours.flags("--dask-tls"))
        assert (code, "2 passed, 0 failed" in out) == (0, True)

        mixed = [*ours.flags("--dask-tls")[:4], "--dask-tls-key", str(others.key)]
        for flags, said in (
            ([], "(TLS expects a `ssl_context` argument of type ssl.SSLContext "),
            (others.flags("--dask-tls"), "(TLS certificate does not match."),
            (mixed, "TLS cannot be set up ([X509: KEY_VALUES_MISMATCH] key values mismatch "),
        ):
            code, out, err = call(capsys, *command, *flags)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert said in err
            assert "certificates are those of --dask-tls-ca-file, --dask-tls-cert and --dask-tls-key" in err

        files = {"ca-file": str(ours.ca), "client": {"cert": str(ours.certificate), "key": str(ours.key)}}
        configured = {"distributed": {"comm": {"tls": files}}}
        (tmp_path / "dask.yaml").write_text(json.dumps(configured))
        found = subprocess.run(
            [*COMMAND, *command],
            env={**os.environ, "DASK_CONFIG": str(tmp_path / "dask.yaml")},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (found.returncode, "2 passed, 0 failed" in found.stdout) == (0, True), found.stderr


@group
@pytest.mark.people
def test_an_exploration_is_the_same(dask: DaskProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Each seed comes to the log that it comes to with --jobs, and so do the findings."""
    reports = []
    for name, flags in (("jobs", ["--jobs", "2"]), ("dask", ["--dask", dask.address])):
        arguments = [CELL, "--seeds", "4", "--no-minimize", "--report", tmp_path / name]
        call(capsys, "explore", *arguments, *flags)
        lines = (tmp_path / name / "runs.jsonl").read_text().splitlines()
        runs = sorted((run["seed"], run["logHash"], run["findings"]) for run in map(json.loads, lines))
        reports.append((runs, sorted(path.name for path in (tmp_path / name / "findings").iterdir())))

    assert len(reports[0][0]) == 4
    assert reports[1] == reports[0]


async def held(folder: Path, dask: DaskProcesses, number: int) -> int:
    """Waits until a held cell runs its script; returns the worker that it is at."""
    begun = folder / f"begun-{number}"
    await until(lambda: begun.exists() and begun.read_text(), seconds=100)
    pid = int(begun.read_text())
    [worker] = [each.pid for each in dask.workers if pid in dask.children(each.pid)]
    return worker


def started(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as log_file:
        return subprocess.Popen(command, stdout=log_file, stderr=log_file)


@group
@pytest.mark.people
async def test_a_cell_outlives_its_worker(tmp_path: Path):
    """A worker is killed in mid-cell, on processes: the other runs that cell again. Then that one is killed:
    what was done is kept and said, and --resume goes on."""
    (tmp_path / "held.yaml").write_text(HELD)
    for number in (1, 2):
        os.mkfifo(tmp_path / f"may-go-on-{number}")
    log, kept = tmp_path / "log", tmp_path / "report"
    with running_dask(tmp_path / "dask") as dask:
        dask.start_worker(), dask.start_worker()
        command = [*COMMAND, "matrix", str(tmp_path / "held.yaml"), "--dask", dask.address]
        run = started([*command, "--report", str(kept)], log)
        first, second = [await held(tmp_path, dask, number) for number in (1, 2)]
        assert first != second
        running = dask.children(first)
        (tmp_path / "begun-1").unlink()
        dask.kill(first)
        (tmp_path / "may-go-on-2").write_text("now\n")
        assert await held(tmp_path, dask, 1) == second
        await until(lambda: not any(map(is_running, running)))

        dask.kill(second)
        assert run.wait(90) == 130, log.read_text()
        said = log.read_text()
        assert "has gone; to be run again: held/1\n" in said
        assert "1/2 held/2: passed in " in said
        assert said.endswith(f"1 of 2 cells are done, in {kept}/report.json: --resume goes on\n")
        assert [cell["result"] for cell in report(kept)["cells"]] == ["notRun", "passed"]

        (tmp_path / "begun-1").unlink()
        dask.start_worker()
        run = started([*command, "--report", str(kept), "--resume"], log)
        await held(tmp_path, dask, 1)
        (tmp_path / "may-go-on-1").write_text("now\n")
        assert run.wait(60) == 0, log.read_text()
    assert "1 of 2 cells taken over" in log.read_text()
    assert [cell["result"] for cell in report(kept)["cells"]] == ["passed", "passed"]

"""Cells of 1.36 with a real scheduler and controller manager, next to the same cells, emulated."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Quotas, scheduling of devices, flipped gates, the log of the scheduler, crashes at the n-th write.
CELLS = (
    *("kep-5004/quota/1.36", "kep-5004/basic/implicit/1.36", "kep-4815/flips/none/1.36"),
    *("kep-5004/scheduler-logs/explicit-1.36", "dra/fault-crashes/1.36"),
)

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(600)]


def matrix(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubeskew", "matrix", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=570)


def test_cells_come_out_as_emulated_ones(binaries: Path, tmp_path: Path):
    """Every step has the same result in both lanes; each cell names its programs, and is recorded."""
    folder, recorded = tmp_path / "report", tmp_path / "recorded"
    real = ("--binaries", binaries, "--real", "scheduler,controller-manager", "--against-emulated")
    done = matrix(*CELLS, *real, "--jobs", 1, "--report", folder, "--record-real", recorded)
    report = json.loads((folder / "report.json").read_text())

    assert [cell["name"] for cell in report["cells"]] == [*CELLS], done.stderr
    for cell in report["cells"]:
        assert (cell["failure"], cell["sideBySide"]["emulated"]["failure"]) == ("", "")
        assert [each for each in cell["sideBySide"]["differences"] if each["kind"] == "result"] == []
        assert [*cell["programs"]] == ["controller-manager", "scheduler"]
        assert all("v1.36." in program for found in cell["programs"].values() for program in found)
    assert [*json.loads((recorded / "outcomes-1.36.json").read_text())] == sorted(CELLS)

"""Cells with real kubelets, which run their pods on our runtime by CRI; it needs root."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CELL = "kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35"

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(600)]


def test_a_cell_passes_with_real_kubelets(binaries: Path, tmp_path: Path):
    """Its kubelets go from 1.35 to 1.36 and back; no process of them is left."""
    command = [sys.executable, "-m", "kubeskew", "matrix", CELL, "--binaries", str(binaries)]
    done = subprocess.run(
        [*command, "--real", "kubelet", "--jobs", "1", "--report", str(tmp_path / "report")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        text=True,
        capture_output=True,
        timeout=570,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Real programs: kubelet v1.35." in done.stdout
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if str(tmp_path).encode() in line and b"/kubelet\0" in line]

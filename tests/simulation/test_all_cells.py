"""Runs every cell simulated: the outcomes are those that are recorded of processes."""

import json

import pytest
from click.testing import CliRunner

from kubeskew.cli.commands.scenarios import matrix

PARTS = 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_simulated_cells_come_out_as_recorded(part: int, tmp_path):
    """No step of a simulated cell ends otherwise than with processes."""
    arguments = ["--profile", "full", "--simulate", "--compare", "--jobs", "1", "--shard", f"{part}/{PARTS}"]
    result = CliRunner().invoke(matrix, [*arguments, "--report", str(tmp_path)], standalone_mode=False)
    assert json.loads((tmp_path / "report.json").read_text())["cells"]
    assert result.return_value == 0, result.output

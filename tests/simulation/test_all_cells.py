"""Runs every cell simulated: the outcomes are those that are recorded of processes."""

import json

import pytest
from click.testing import CliRunner

from kubeskew.cli.commands.scenarios import matrix

PARTS = 12
# What differs, and has to go on differing until somebody finds out why (docs/simulation.md).
DIFFERENT = {
    "kep-4815/version-paths/1.34-1.35-1.34-1.35/by-hand",
    "kep-4815/version-paths/1.34-1.35-1.34-1.35/default",
    "kep-4815/version-paths/1.35-1.36-1.35-1.36/default",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_simulated_cells_come_out_as_recorded(part: int, tmp_path):
    """No step of a simulated cell ends otherwise than with processes, but for the cells that are known to."""
    arguments = ["--profile", "full", "--simulate", "--compare", "--jobs", "1", "--shard", f"{part}/{PARTS}"]
    result = CliRunner().invoke(matrix, [*arguments, "--report", str(tmp_path)], standalone_mode=False)
    lines = [line for line in result.output.splitlines() if line.startswith("differs from the record: ")]
    cells = {line.removeprefix("differs from the record: ").partition(": ")[0] for line in lines}
    ran = {cell["name"] for cell in json.loads((tmp_path / "report.json").read_text())["cells"]}
    assert cells == DIFFERENT & ran, result.output

"""Runs every cell simulated: the outcomes are those that are recorded of processes."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeskew.cli.commands.scenarios import matrix

BUGS = "known-bugs"
SCENARIOS = Path(__file__).parents[2] / "conformance" / "scenarios"
PATTERNS = sorted({f"{path.stem}/*" for path in SCENARIOS.iterdir()} - {f"{BUGS}/*"})
PARTS = 5


def check(patterns: Sequence[str], part: int, parts: int, directory) -> None:
    only = [word for pattern in patterns for word in ("--only", pattern)]
    arguments = [
        "--profile",
        "full",
        "--simulate",
        "--compare",
        "--compare-real",
        "--jobs",
        "1",
        "--shard",
        f"{part}/{parts}",
    ]
    command = [*arguments, *only, "--report", str(directory)]
    result = CliRunner().invoke(matrix, command, standalone_mode=False)
    assert json.loads((directory / "report.json").read_text())["cells"]
    assert result.return_value == 0, result.output


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_simulated_cells_come_out_as_recorded(part: int, tmp_path):
    """No step of a simulated cell ends otherwise than with processes."""
    check(PATTERNS, part, PARTS, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_simulated_cells_of_known_bugs_come_out_as_recorded(part: int, tmp_path):
    """A release with a known bug shows it, and one without does not, in simulations as with processes."""
    check([f"{BUGS}/*"], part, PARTS, tmp_path)

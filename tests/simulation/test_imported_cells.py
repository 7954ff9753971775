"""Scenarios whose paths lead through imported releases, simulated."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from imported import enhanced, import_into
from recorded import DATA

from kubeskew.apimachinery.imported_releases import ENVIRONMENT
from kubeskew.cli.commands.scenarios import matrix

SCENARIO = DATA / "there-and-back.yaml"


@pytest.fixture(name="releases")
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    releases = tmp_path / "releases"
    made = enhanced()
    import_into(releases, made, tmp_path / "tree", "1.37+path")
    import_into(releases, made, tmp_path / "tree", "1.38")
    monkeypatch.setenv(ENVIRONMENT, str(releases))
    return releases


@pytest.mark.usefixtures("releases")
def test_there_and_back(tmp_path: Path):
    """A new field is dropped without its gate, kept while an object has it, and lost on the way down."""
    arguments = [str(SCENARIO), "--simulate", "--jobs", "1", "--report", str(tmp_path / "report")]
    result = CliRunner().invoke(matrix, arguments, standalone_mode=False)
    assert result.exception is None, result.exception
    cells = json.loads((tmp_path / "report" / "report.json").read_text())["cells"]

    assert [(cell["name"], cell["result"]) for cell in cells] == [
        ("there-and-back/1.36-1.37+path-1.36", "expected"),
        ("there-and-back/1.37-1.38-1.37", "expected"),
    ], result.output

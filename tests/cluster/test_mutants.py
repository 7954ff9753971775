"""Planted defects: each known one turns its cell red, with a failure that names the component at fault."""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from kubeskew.conformance import outcomes
from kubeskew.conformance.scenario import INVARIANTS

ROOT = Path(__file__).parents[2]
MUTANTS: dict[str, Mapping[str, str]] = {
    mutant["name"]: mutant
    for mutant in yaml.safe_load((ROOT / "tests" / "data" / "mutants.yaml").read_text())
}
PARTS = {
    "apiserver": 4,  # the least number of each
    "controller-manager": 3,
    "scheduler": 8,
    "kubelet": 4,
    "driver": 3,
}
# the first defect of these components; the others are among the long tests
FIRST = [
    next(name for name, mutant in MUTANTS.items() if mutant["component"] == component)
    for component in ("apiserver", "scheduler", "kubelet")
]


def script() -> ModuleType:
    """The tool that plants them, hack/checks/mutants.py."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "hack" / "checks" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_mutant_of_every_part():
    """Twenty defects at least, several in every component; a driver's controller is one, too."""
    parts = [re.split("/|(?<=driver)-", mutant["component"])[0] for mutant in MUTANTS.values()]
    assert len(parts) >= 20
    assert [part for part, least in PARTS.items() if parts.count(part) < least] == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_sources_and_the_record(name: str):
    """The text to replace stands once in its file; the step is recorded as passed, or nothing as broken."""
    mutant = MUTANTS[name]
    text = (ROOT / mutant["file"]).read_text()
    assert text.count(mutant["old"]) == 1
    compile(text.replace(mutant["old"], mutant["new"]), mutant["file"], "exec")

    steps = outcomes.read(outcomes.RECORD)[mutant["cell"]]["steps"]
    assert steps.get(mutant["step"]) == (None if mutant["step"] == INVARIANTS else "passed")


def test_the_table_of_results_has_every_mutant_found():
    """The page of results is that of the defects as they are, and lays each to its component."""
    page = (ROOT / "docs" / "mutants.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    named = script().NAMED
    assert [(name, component, broken) for name, component, broken, _, _ in rows] == [
        (name, mutant["component"], mutant["breaks"]) for name, mutant in MUTANTS.items()
    ]
    assert [
        (name, laid) for name, component, _, _, laid in rows if not laid.startswith(named[component])
    ] == []


def test_a_text_that_is_not_there_is_reported(tmp_path: Path):
    """A defect that no longer fits the sources is no defect that is found."""
    mutants = script()
    stale = {**MUTANTS["quota"], "old": "nothing of the kind"}
    with pytest.raises(mutants.NotPlantedError, match="0 times, not once"):
        mutants.plant(stale, tmp_path)


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ({"result": "passed", "failure": ""}, "c is green: passed"),
        ({"result": "failed", "failure": "t: written by x"}, "another step fails first: t: written by x"),
        (
            {"result": "failed", "failure": "s: written by y"},
            "the failure does not match 5.*? by (?P<fault>[^ ,]+): s: written by y",
        ),
        (
            {"result": "failed", "failure": "s: 5 (written by y 1.36, before by kubelet/x)"},
            "what is at fault is not kubelet/: y",
        ),
        (
            {"result": "failed", "failure": "s: 5, placed by kubelet/x"},
            "kubelet/x is named, but not as the one at fault: s: 5, placed by kubelet/x",
        ),
        ({"result": "failed", "failure": "s: 5 (written by kubelet/x 1.36)"}, ""),
        ({"result": "failed", "failure": "s: 5 in the log\nrun by kubelet/x 1.36, Pod bound by y"}, ""),
    ],
)
def test_only_the_right_failure_shows_a_defect(cell: dict[str, Any], why: str):
    """The noted step has to fail first, and its failure to lay it to the component, not only to name it."""
    assert (
        script().judge(
            {"cell": "c", "step": "s", "found": r"5.*? by (?P<fault>[^ ,]+)", "component": "kubelet"}, cell
        )
        == why
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in MUTANTS]
)
def test_the_matrix_finds_a_planted_defect(name: str, tmp_path: Path):
    """The cell turns red with the defect, and says whose fault it is."""
    mutants = script()
    mutants.plant(MUTANTS[name], tmp_path)

    assert mutants.judge(MUTANTS[name], mutants.run_cell(MUTANTS[name]["cell"], tmp_path)) == ""

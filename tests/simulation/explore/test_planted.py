"""Planted defects: explorations of a scenario that was not written for them find them."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PLANTED: dict[str, Mapping[str, Any]] = {
    defect["name"]: defect
    for defect in yaml.safe_load((ROOT / "tests" / "data" / "planted.yaml").read_text())
}
EACH_TIME = ("device-twice", "lease-twice")  # found within few seeds; `make planted` has all


def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Loads the tool that plants them, hack/checks/planted.py."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("planted", ROOT / "hack" / "checks" / "planted.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PLANTED)
def test_a_defect_fits_the_sources(name: str):
    """The text to replace stands once in its file, and what stands in its place can be compiled."""
    defect = PLANTED[name]
    text = (ROOT / defect["file"]).read_text()
    assert text.count(defect["old"]) == 1
    compile(text.replace(defect["old"], defect["new"]), defect["file"], "exec")


def test_the_first_seed_that_shows_it_counts(monkeypatch: pytest.MonkeyPatch):
    """Of the findings that match and are not known, the one of the lowest seed is taken."""
    tool = script(monkeypatch)
    titles = [
        (5, "[unknown] I01: a"),
        (3, "[defect] I01: a"),
        (2, "[upstream] I01: a"),
        (1, "[unknown] I09: I01"),
    ]
    findings = [{"seed": seed, "title": title} for seed, title in titles]
    assert tool.matching({"found": "I01"}, {"findings": findings})["seed"] == 3
    assert tool.matching({"found": "I02"}, {"findings": findings}) is None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EACH_TIME)
def test_an_exploration_finds_a_planted_defect(name: str, monkeypatch: pytest.MonkeyPatch):
    """With the defect, a finding matches within few seeds."""
    right, line = script(monkeypatch).judge(PLANTED[name])
    assert right, line

"""Runs ten cells twice in simulations: the second run does the same as the first, callback by callback."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from kubeskew.conformance import matrix
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.faults.plan_generator import describe, draw

ROOT = Path(__file__).parents[2]


@cache
def cells() -> list[Cell]:
    """The first ten cells of the sample that can be simulated."""
    return [cell for cell in matrix.of_profile("sample").cells() if not cell.uses("script")][:10]


def script() -> ModuleType:
    """The tool of `make twice`, hack/checks/twice.py, which runs all cells."""
    spec = importlib.util.spec_from_file_location("twice", ROOT / "hack" / "checks" / "twice.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(10))
def test_a_cell_does_the_same_twice(number: int):
    """Time, process and code of every callback are the same, and so is the log; every other has faults."""
    cell = cells()[number]
    plan = draw(number, describe(cell)) if number % 2 else None
    assert script().difference(cell, number, plan) == ""

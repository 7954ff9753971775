"""The documents of coverage: what they name is there."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from kubeskew.conformance import outcomes
from kubeskew.conformance.matrix import bundled, find
from kubeskew.conformance.scenario import Scenario

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted((ROOT / "docs/coverage").glob("*.md"))
DESIGNS = [path for path in DOCUMENTS if path.name != "README.md"]
STATEMENT = re.compile(r"\| ((?:[A-Z]+-)?[A-Z]+\d+) \|")


def statements(path: Path) -> list[list[str]]:
    """Returns the cells of the rows that begin with a number."""
    lines = [line for line in path.read_text().splitlines() if STATEMENT.match(line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def quoted(path: Path) -> list[str]:
    return re.findall(r"`([^`]+)`", path.read_text())


@cache
def loaded(name: str) -> Scenario:
    return find(name)


def is_there(name: str) -> bool:
    """Says whether there is such a scenario, cell, or step: `kep-4815/mig: two halves fit`."""
    place, _, step = name.partition(": ")
    known = next((each for each in bundled() if place == each or place.startswith(f"{each}/")), None)
    if known is None:
        return False
    scenario = loaded(known)
    if place != known and place not in {cell.name for cell in scenario.cells()}:
        return False
    return not step or step in {each.name for each in scenario.steps}


@cache
def recorded() -> Mapping[str, outcomes.Outcome]:
    return outcomes.read(outcomes.RECORD)


def is_seen(name: str) -> bool:
    """Says whether the step of `kep-4815/mig: two halves fit` passed in a cell of the record."""
    place, _, step = name.partition(": ")
    return any(
        verdict == "passed" and f": {key}".endswith(f": {step}")
        for cell, outcome in recorded().items()
        if cell == place or cell.startswith(f"{place}/")
        for key, verdict in outcome["steps"].items()
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_coverage_names_tests_that_exist(path: Path):
    """Every test that a document of coverage names is there."""
    tests = "".join(file.read_text() for file in sorted((ROOT / "tests").rglob("test_*.py")))
    named = {name for name in quoted(path) if re.fullmatch(r"test_\w+", name)}
    assert {name for name in named if f"def {name}(" not in tests} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_coverage_names_scenarios_cells_and_steps_that_exist(path: Path):
    """Every scenario that a document of coverage names is there, with the cell or the step that it names."""
    groups = {name.split("/")[0] for name in bundled()}
    named = {name for name in quoted(path) if name.split("/")[0] in groups and not re.search("[…*]", name)}
    assert {name for name in named if not is_there(name)} == set()


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_every_statement_says_where_it_is_shown(path: Path):
    """A statement has a number of its own, and a place where it is shown, or the word open."""
    rows = statements(path)
    numbers = [row[0] for row in rows]
    assert sorted(numbers) == sorted(set(numbers))
    assert [row for row in rows if len(row) != 3 or not row[2]] == []


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_nearly_every_statement_is_shown(path: Path):
    """Of twenty statements of a design no more than one is open."""
    rows = statements(path)
    unshown = [row[0] for row in rows if re.search(r"(^|[:;,] )open$", row[2])]
    assert len(unshown) * 20 <= len(rows), unshown


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_what_a_statement_names_was_seen(path: Path):
    """A named step passes in some recorded cell, unless the row says that it fails as upstream."""
    places = [
        (row[0], name)
        for row in statements(path)
        for name in re.findall(r"`([^`]+)`", row[2])
        if re.fullmatch(r"[\w-]+/[^:]+: .+", name) and "as upstream" not in row[2]
    ]
    assert [place for place in places if not is_seen(place[1])] == []


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_a_statement_that_refers_to_another_is_shown_by_it(path: Path):
    """`R10` instead of a test stands for what shows that statement, which is a row of the same document."""
    rows = {row[0]: row[2] for row in statements(path)}
    named = {
        (number, other)
        for number, shown in rows.items()
        for other in re.findall(r"(?<![\w-])[A-Z]{1,2}\d{1,2}(?=,|;|:| \(|$)", re.sub(r"`[^`]+`", "", shown))
    }
    assert {pair for pair in named if pair[1] not in rows or pair[1] == pair[0]} == set()

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
# The drafts have rows of decisions, too, which no test shows.
SHIPPED = [path for path in DESIGNS if path.stem.startswith(("kep-4815", "kep-5004"))]
STATEMENT = re.compile(r"\| ((?:[A-Z]+-)?[A-Z]+\d+) \|")
OPEN = re.compile(r"(^|[:;,] )open$")


def statements(path: Path) -> list[list[str]]:
    """Returns the cells of the rows that begin with a number."""
    lines = [line for line in path.read_text().splitlines() if STATEMENT.match(line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def quoted(path: Path) -> list[str]:
    return re.findall(r"`([^`]+)`", path.read_text())


@cache
def groups() -> set[str]:
    return {name.split("/")[0] for name in bundled()}


@cache
def loaded(name: str) -> Scenario:
    [scenario] = find(name)
    return scenario


def scenario_of(place: str) -> str | None:
    """Returns the scenario of `kep-4815/mig/1.36`, whose name the place begins with."""
    return next((each for each in bundled() if place == each or place.startswith(f"{each}/")), None)


def is_named(full: str, step: str) -> bool:
    """Says whether a step has that name, by itself or as a repetition: `1.35 to 1.36: a pod runs`."""
    return full == step or full.endswith(f": {step}")


def is_there(name: str) -> bool:
    """Says whether there is such a scenario, cell (or cells with that beginning), or step:
    `kep-4815/mig: two halves fit`."""
    place, _, step = name.partition(": ")
    known = scenario_of(place)
    if known is None:
        return False
    scenario = loaded(known)
    if place != known and not any(f"{cell.name}/".startswith(f"{place}/") for cell in scenario.cells()):
        return False
    return not step or any(is_named(step, each.name) for each in scenario.steps)


@cache
def recorded() -> Mapping[str, outcomes.Outcome]:
    return outcomes.read(outcomes.RECORD)


def seen(name: str) -> set[str]:
    """Returns how the step of `kep-4815/mig: two halves fit` ended where it was run, in all cells of the
    record that are meant: passed, expected."""
    place, _, step = name.partition(": ")
    return {
        verdict.partition(":")[0]
        for cell, outcome in recorded().items()
        if cell == place or cell.startswith(f"{place}/")
        for key, verdict in outcome["steps"].items()
        if is_named(key, step) and not verdict.startswith("notRun")
    }


def is_marked(name: str) -> bool:
    """Says whether the scenario's header expects a failure of the step."""
    place, _, step = name.partition(": ")
    scenario = loaded(scenario_of(place) or "")
    return any(is_named(step, each) for mark in scenario.expected_failures for each in mark.steps)


def places(shown: str) -> list[tuple[str, bool]]:
    """Returns the scenarios, cells and steps that a row names, and whether it says that they fail."""
    named = re.findall(r"`([\w-]+/[^`]+)`( \(fails as upstream\))?", shown)
    return [(name, bool(fails)) for name, fails in named if name.split("/")[0] in groups()]


def references(shown: str) -> list[str]:
    """Returns the other statements that a row refers to: `R10` stands for what shows that one."""
    return re.findall(r"(?<![\w-])[A-Z]{1,2}\d{1,2}(?=,|;|:| \(|$)", re.sub(r"`[^`]+`", "", shown))


def is_shown(number: str, rows: Mapping[str, str]) -> bool:
    """Says whether a test or a scenario shows the statement, or another one that it refers to."""
    shown = rows[number]
    if OPEN.search(shown):
        return False
    if places(shown) or re.search(r"`test_\w+`", shown):
        return True
    return any(is_shown(other, rows) for other in references(shown))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_coverage_names_tests_that_exist(path: Path):
    """Every test that a document of coverage names is there."""
    tests = "".join(file.read_text() for file in sorted((ROOT / "tests").rglob("test_*.py")))
    named = {name for name in quoted(path) if re.fullmatch(r"test_\w+", name)}
    assert {name for name in named if f"def {name}(" not in tests} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_coverage_names_scenarios_cells_and_steps_that_exist(path: Path):
    """Every scenario that a document of coverage names is there, with the cell or the step that it names."""
    named = {name for name in quoted(path) if name.split("/")[0] in groups() and not re.search("[…*]", name)}
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
    unshown = [row[0] for row in rows if OPEN.search(row[2])]
    assert len(unshown) * 20 <= len(rows), unshown


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_statement_that_no_test_shows_is_open(path: Path):
    """A statement that neither a test nor a step nor another statement shows says that it is open."""
    rows = {row[0]: row[2] for row in statements(path)}
    assert [
        number for number, shown in rows.items() if not is_shown(number, rows) and not OPEN.search(shown)
    ] == []


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_a_scenario_shows_by_its_steps(path: Path):
    """A whole scenario shows nothing: the row says which of its steps does."""
    assert [
        (row[0], name) for row in statements(path) for name, _ in places(row[2]) if ": " not in name
    ] == []


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_what_a_statement_names_was_seen(path: Path):
    """A named step was run in a recorded cell, and passed in all that are meant and ran it; one of which the
    row says that it fails as upstream failed in all of them, and as the scenario's header expects."""
    named = [(row[0], *place) for row in statements(path) for place in places(row[2]) if ": " in place[0]]
    assert [
        (number, name, ends)
        for number, name, fails in named
        if (ends := seen(name)) != ({"expected"} if fails else {"passed"}) or (fails and not is_marked(name))
    ] == []


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_upstreams_failures_are_shown_with_their_step(path: Path):
    """The words that something fails as upstream stand right behind a step, which is held to the record."""
    rows = {row[0]: re.sub(r"` \(fails as upstream\)", "`", row[2]) for row in statements(path)}
    assert [number for number, shown in rows.items() if "as upstream" in shown] == []


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_a_statement_that_refers_to_another_is_shown_by_it(path: Path):
    """`R10` instead of a test stands for what shows that statement, which is a row of the same document."""
    rows = {row[0]: row[2] for row in statements(path)}
    named = {(number, other) for number, shown in rows.items() for other in references(shown)}
    assert {pair for pair in named if pair[1] not in rows or pair[1] == pair[0]} == set()

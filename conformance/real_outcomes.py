"""Recorded outcomes of cells that ran with real programs, for those who have none to compare with.

A folder has a file for each minor, `outcomes-1.36.json`: that of the newest release that the cell's
components ran at. Other than in the record of emulated cells, a failure is recorded, too: real programs did
that.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeskew.apimachinery.known_names import UNVERSIONED, kind_of
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance import outcomes
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.outcomes import ON_REAL, Outcome
from kubeskew.conformance.results import CellResult

DIRECTORY = Path(__file__).parent / "real"
_FILES = "outcomes-*.json"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Steps in which emulated cells differ from the recorded ones, and cells without a recording."""

    differences: Sequence[str]
    unrecorded: Sequence[str]
    compared: int  # cells


def read(directory: Path) -> dict[str, Outcome]:
    """Raises ScenarioError if there is no recording that can be read."""
    if not directory.is_dir():
        raise ScenarioError(f"there is no directory {directory}: `kubeskew matrix --record-real` writes one")
    files = sorted(directory.glob(_FILES))
    if not files:
        raise ScenarioError(f"{directory} has no {_FILES}: `kubeskew matrix --record-real` writes them")
    return {name: outcome for file in files for name, outcome in outcomes.read(file).items()}


def record(directory: Path, cells: Sequence[CellResult]) -> list[str]:
    """Adds these cells to the files of their minors; a line for each that is left out is returned.

    Raises ScenarioError if a file is damaged, OSError if one cannot be written.
    """
    left_out = []
    known = {file: outcomes.read(file) for file in sorted(directory.glob(_FILES))}
    for cell in cells:
        if cell.error or not cell.programs:
            why = cell.error.splitlines()[0] if cell.error else "no real program ran in it"
            left_out.append(f"{cell.name}: not recorded: {why}")
            continue
        for recorded in known.values():
            recorded.pop(cell.name, None)  # it may have been of another minor
        programs = {name: list(found) for name, found in sorted(cell.programs.items())}
        file = directory / f"outcomes-1.{_minor(cell)}.json"
        known.setdefault(file, {})[cell.name] = {**_comparable(cell), "real": programs}
    directory.mkdir(parents=True, exist_ok=True)
    for file, recorded in known.items():
        ordered = {name: recorded[name] for name in sorted(recorded)}
        file.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    return left_out


def _minor(cell: CellResult) -> int:
    runs = [run for runs in cell.ways.values() for run in runs if kind_of(run.component) not in UNVERSIONED]
    return max(Version.parse(run.version).minor for run in runs if run.version)


def _comparable(cell: CellResult) -> Outcome:
    found = outcomes.outcome(cell)
    return {**found, "steps": {name: outcomes.comparable(text) for name, text in found["steps"].items()}}


def compare(recorded: Mapping[str, Outcome], cells: Sequence[CellResult]) -> Comparison:
    """Steps that a real program cannot do are not compared."""
    there = [cell for cell in cells if cell.name in recorded]
    return Comparison(
        [line for cell in there for line in _differences(recorded[cell.name], cell)],
        [cell.name for cell in cells if cell.name not in recorded],
        len(there),
    )


def _differences(before: Outcome, cell: CellResult) -> Iterator[str]:
    now = _comparable(cell)
    if cell.error:
        yield f"{cell.name}: was {before['result']} with {_programs(before)}, is {cell.error.splitlines()[0]}"
        return
    for step in dict.fromkeys([*before["steps"], *now["steps"]]):
        old, new = before["steps"].get(step, "no such step"), now["steps"].get(step, "no such step")
        if old != new and not old.startswith(ON_REAL):
            yield f"{cell.name}: {step}: was {old} with {_programs(before)}, is {new}"


def _programs(recorded: Outcome) -> str:
    found = (program for programs in (recorded.get("real") or {}).values() for program in programs)
    return ", ".join(dict.fromkeys(found)) or "real programs"

"""Recorded outcomes of cells that ran with real programs, for those who have none to compare with.

A folder has a file for each minor, `outcomes-1.36.json`: that of the newest release that the cell's
components ran at. Other than in the record of emulated cells, a failure is recorded, too: real programs did
that. A cell has an outcome for each set of slots in which real programs ran.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from kubeskew.apimachinery.known_names import UNVERSIONED, kind_of
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance import outcomes
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.outcomes import ON_REAL, Outcome
from kubeskew.conformance.results import CellResult

DIRECTORY = Path(__file__).parent / "real"
_FILES = "outcomes-*.json"
_NO_STEP = "no such step"
NAMED = "named.yaml"
Recorded = Mapping[str, Mapping[str, Outcome]]  # by cell, and by the slots that were real


@dataclass(frozen=True, slots=True)
class Named:
    """A difference that has a name: docs/fidelity.md says why it is there.

    `recorded` and `emulated` are the beginnings of both verdicts, without what differs from run to run.
    """

    cells: str  # a pattern, as that of --only
    step: str
    recorded: str
    emulated: str
    reason: str

    def covers(self, cell: str, step: str, recorded: str, emulated: str) -> bool:
        return (
            fnmatchcase(cell, self.cells)
            and step == self.step
            and recorded.startswith(self.recorded)
            and emulated.startswith(self.emulated)
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Steps in which emulated cells differ from the recorded ones, and cells without a recording."""

    differences: Sequence[str]
    named: Sequence[str]  # as `differences`, each with its reason
    unrecorded: Sequence[str]
    compared: int  # cells


def read(directory: Path) -> dict[str, dict[str, Outcome]]:
    """Raises ScenarioError if there is no recording that can be read."""
    if not directory.is_dir():
        raise ScenarioError(f"there is no directory {directory}: `kubeskew matrix --record-real` writes one")
    files = sorted(directory.glob(_FILES))
    if not files:
        raise ScenarioError(f"{directory} has no {_FILES}: `kubeskew matrix --record-real` writes them")
    return {name: ways for file in files for name, ways in _read(file).items()}


def read_named(directory: Path) -> Sequence[Named]:
    """There are none without a file of them. Raises ScenarioError if it is damaged."""
    file = directory / NAMED
    try:
        return [Named(**entry) for entry in yaml.safe_load(file.read_text()) or ()]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise ScenarioError(f"{file}: these are no named differences: {error}") from error


def _read(file: Path) -> dict[str, dict[str, Outcome]]:
    found = outcomes.read(file)
    for name, ways in found.items():
        if not all(isinstance(way, dict) and {"result", "steps", "real"} <= {*way} for way in ways.values()):
            raise ScenarioError(
                f"{file}: {name} is recorded in an older format: record it again with --record-real"
            )
    return {name: dict(ways) for name, ways in found.items()}


def record(directory: Path, cells: Sequence[CellResult], *, add: bool = False) -> list[str]:
    """Records these cells in the files of their minors; a line for each that is left out is returned.

    An outcome takes the place of the one that the same slots had before. With `add` it stands beside it, so
    that a step has all outcomes that several runs of the same programs showed.

    Raises ScenarioError if a file is damaged, OSError if one cannot be written.
    """
    left_out = []
    known = {file: _read(file) for file in sorted(directory.glob(_FILES))}
    for cell in cells:
        if cell.error or not cell.programs:
            why = cell.error.splitlines()[0] if cell.error else "no real program ran in it"
            left_out.append(f"{cell.name}: not recorded: {why}")
            continue
        ways: dict[str, Outcome] = {}
        for recorded in known.values():
            ways |= recorded.pop(cell.name, {})  # it may have been of another minor
        programs = {name: list(found) for name, found in sorted(cell.programs.items())}
        slots = slots_of(programs)
        found: Outcome = {**_comparable(cell), "real": programs}
        before = ways.get(slots)
        if add and before is not None and before["real"] == programs:
            found = _both(before, found)
        ways[slots] = found
        file = directory / f"outcomes-1.{_minor(cell)}.json"
        known.setdefault(file, {})[cell.name] = {way: ways[way] for way in sorted(ways)}
    directory.mkdir(parents=True, exist_ok=True)
    for file, recorded in known.items():
        ordered = {name: recorded[name] for name in sorted(recorded)}
        file.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    return left_out


def slots_of(programs: Iterable[str]) -> str:
    """Names the kinds of components that real programs ran for: `controller-manager,scheduler`."""
    return ",".join(sorted({kind_of(name) for name in programs}))


def alternatives(recorded: Outcome, step: str) -> Sequence[str]:
    """The outcomes that a step may have; more than one if runs of the real programs differed."""
    found = recorded["steps"].get(step, _NO_STEP)
    return [found] if isinstance(found, str) else found


def _both(before: Outcome, now: Outcome) -> Outcome:
    def one(texts: Sequence[str]) -> str | Sequence[str]:
        known = sorted({*texts})
        return known[0] if len(known) == 1 else known

    steps = dict.fromkeys([*before["steps"], *now["steps"]])
    joined = {step: one([*alternatives(before, step), *alternatives(now, step)]) for step in steps}
    results = [before["result"]] if isinstance(before["result"], str) else before["result"]
    return {**now, "result": one([*results, now["result"]]), "steps": joined}


def _minor(cell: CellResult) -> int:
    runs = [run for runs in cell.ways.values() for run in runs if kind_of(run.component) not in UNVERSIONED]
    return max(Version.parse(run.version).minor for run in runs if run.version)


def _comparable(cell: CellResult) -> Outcome:
    found = outcomes.outcome(cell)
    return {**found, "steps": {name: outcomes.comparable(text) for name, text in found["steps"].items()}}


def compare(recorded: Recorded, cells: Sequence[CellResult], named: Sequence[Named] = ()) -> Comparison:
    """Holds each cell against every way in which it is recorded: an emulated cell against all of them, one
    with real programs against that of the same slots. Steps that a real program cannot do are not compared.
    """
    differences, with_name, unrecorded = [], [], []
    for cell in cells:
        ways = recorded.get(cell.name, {})
        if cell.programs:
            slots = slots_of(cell.programs)
            ways = {slots: ways[slots]} if slots in ways else {}
        if not ways:
            unrecorded.append(cell.name)
        for way in ways.values():
            for step, old, new in _differences(way, cell):
                line = f"{cell.name}: {step}was {' or '.join(old)} with {_programs(way)}, is {new}"
                reasons = [
                    name.reason
                    for name in named
                    if any(name.covers(cell.name, step.removesuffix(": "), text, new) for text in old)
                ]
                if reasons:
                    with_name.append(f"{line}: {reasons[0]}")
                else:
                    differences.append(line)
    return Comparison(differences, with_name, unrecorded, len(cells) - len(unrecorded))


def _differences(recorded: Outcome, cell: CellResult) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yields the step (empty, if it is the whole cell), what it came to before, and now."""
    if cell.error:
        result = recorded["result"]
        yield "", [result] if isinstance(result, str) else result, cell.error.splitlines()[0]
        return
    for step, old, new in differing(recorded, _comparable(cell)):
        yield f"{step}: ", old, new


def differing(recorded: Outcome, emulated: Outcome) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yields each step whose emulated outcome is none of those recorded, with both."""
    for step in dict.fromkeys([*recorded["steps"], *emulated["steps"]]):
        old = [text for text in alternatives(recorded, step) if not text.startswith(ON_REAL)]
        new = emulated["steps"].get(step, _NO_STEP)
        if old and new not in old and not new.startswith(ON_REAL):
            yield step, old, new


def _programs(recorded: Outcome) -> str:
    found = (program for programs in (recorded.get("real") or {}).values() for program in programs)
    return ", ".join(dict.fromkeys(found)) or "real programs"

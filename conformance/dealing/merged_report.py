"""Merges the reports of all shards into the one that a single run would have made.

The whole run stands in each report, as `shard`: the command of the whole, its cells, and the digests of their
sources. So nothing but the reports is needed, and reports of different runs are not mixed up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.report import Head, Part, Subsets, whole
from kubeskew.conformance.reporting import junit
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resumption import digest_of, digest_of_package, restored
from kubeskew.conformance.scenario import Cell


@dataclass(frozen=True, slots=True)
class _Shard:
    path: Path
    head: Head
    part: Part
    subsets: Sequence[Subsets]
    cells: Mapping[str, Mapping[str, Any]]  # by name

    @property
    def label(self) -> str:
        return f"{self.part.number}/{self.part.of}"


def merged(reports: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Any]:
    """Merges reports of shards, given in any order.

    Raises ScenarioError if a report is of another run or of no shard, is damaged, or if a shard is missing or
    there twice.
    """
    shards = [_shard(path, report) for path, report in reports]
    _check(shards)
    found = _cells(shards)
    first = shards[0]
    head = Head(
        first.head.title,
        min(shard.head.started for shard in shards),
        first.part.command,
        sum(shard.head.seconds for shard in shards),
    )
    return whole(head, [found[name] for name in first.part.cells], first.subsets)


def _shard(path: Path, report: Mapping[str, Any]) -> _Shard:
    """Raises ScenarioError unless the report is whole, and of a shard."""
    if report.get("shard") is None:
        raise ScenarioError(f"{path}: this is no report of a shard: name those that --shard I/N wrote")
    try:
        fields = dict(report["shard"])
        subsets = [Subsets(**each) for each in fields.pop("subsets")]
        cells = report["cells"]
        head = Head(report["title"], report["started"], report["command"], report["seconds"])
        shard = _Shard(path, head, Part(**fields), subsets, {cell["name"]: cell for cell in cells})
        junit.as_junit(whole(head, cells, subsets))  # fails if a cell lacks a field
        strange = [name for name in shard.cells if name not in shard.part.cells]
        if strange or len(shard.cells) < len(cells):
            raise ValueError(
                f"the cell {strange[0]} is none of its run" if strange else "a cell is there twice"
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else str(error)
        raise ScenarioError(
            f"{path}: this report is damaged ({why}): run the shard again with --report"
        ) from error
    return shard


def _check(shards: Sequence[_Shard]) -> None:
    """Raises ScenarioError unless these are all shards of one run, each once."""
    first = shards[0]
    by_number: dict[int, _Shard] = {}
    for shard in shards:
        for difference in _differences(first.part, shard.part):
            raise ScenarioError(f"{shard.path} is of another run than {first.path}: {difference}")
        if other := by_number.get(shard.part.number):
            raise ScenarioError(
                f"{other.path} and {shard.path} are both of shard {shard.label}: leave one out"
            )
        by_number[shard.part.number] = shard
    of = first.part.of
    missing = [f"{number}/{of}" for number in range(1, of + 1) if number not in by_number]
    if missing:
        subject = f"shard {missing[0]} is" if len(missing) == 1 else f"shards {', '.join(missing)} are"
        raise ScenarioError(f"{subject} missing: name the reports of all {of}")


def _differences(one: Part, other: Part) -> Iterator[str]:
    if one.command != other.command:
        yield f"`{other.command}`, not `{one.command}`"
    if one.of != other.of:
        yield f"it is one of {other.of} shards, not of {one.of}"
    if one.build != other.build:
        builds = f"build {other.build[:12]}, not {one.build[:12]}"
        yield f"another kubeskew made it ({builds}): install the same one for all shards"
    for name, digest in one.scenarios.items():
        if other.scenarios.get(name, digest) != digest:
            yield f"its scenario {name} has other files: run all shards on one commit"
    if one.cells != other.cells:
        yield "its cells are others"


def _cells(shards: Sequence[_Shard]) -> dict[str, Mapping[str, Any]]:
    """Raises ScenarioError if a cell is missing or there twice."""
    found: dict[str, _Shard] = {}
    for shard in shards:
        for name in shard.cells:
            if name in found:
                raise ScenarioError(
                    f"{found[name].path} and {shard.path} both have the cell {name}: one of them is damaged"
                )
            found[name] = shard
    if missing := [name for name in shards[0].part.cells if name not in found]:
        raise ScenarioError(
            f"no report has the cell {missing[0]}, though all shards are there: one of them is damaged"
        )
    return {name: shard.cells[name] for name, shard in found.items()}


def check_same(part: Part, cells: Sequence[Cell]) -> None:
    """Raises ScenarioError unless kubeskew, the scenarios and the cells here are those of a part's whole."""
    found = {cell.scenario.name: cell.scenario for cell in cells}
    digests = {name: digest_of(scenario) for name, scenario in found.items()}
    names = [cell.name for cell in cells]
    here = Part(part.number, part.of, part.command, digest_of_package().hex(), names, digests)
    for difference in _differences(part, here):
        raise ScenarioError(f"the shards are of something else than there is here: {difference}")


def restored_cells(cells: Sequence[Cell], values: Sequence[Mapping[str, Any]]) -> list[CellResult]:
    """Raises ScenarioError if the report is damaged."""
    by_name = {value["name"]: value for value in values}
    results = []
    for cell in cells:
        value = by_name[cell.name]
        try:
            result = restored(cell, value)
            if result.outcome != value["result"]:
                raise ValueError(f"it says {value['result']}, its steps say {result.outcome}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ScenarioError(f"what the reports have of {cell.name} is damaged: {error}") from error
        results.append(result)
    return results

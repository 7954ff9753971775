"""Takes over results of an earlier run, so that an interrupted run can be resumed.

A cell of a report is taken over if none of its sources has changed: its scenario's file and those that this
names, its parameters, and kubeskew's own files. Cells that did not run to their end have no digest in the
report, and run again. So do those that failed: the cause may have been the machine, or have been mended where
no digest shows it.
"""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import kubeskew
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.comparison import Difference, Divergence, Record
from kubeskew.conformance.evidence.components import ComponentRun, FaultMoment
from kubeskew.conformance.evidence.lives import LifeEvent, ObjectLife, PodLife
from kubeskew.conformance.evidence.nodes import DriverCall
from kubeskew.conformance.results import (
    FAILED,
    CellResult,
    LaneDifference,
    OperationResult,
    SideBySide,
    StepResult,
)
from kubeskew.conformance.scenario import Cell, Scenario

FORMAT_VERSION = 1  # of report.json; it goes up when what a reader relies on changes
REPORT = "report.json"


def digest_of(scenario: Scenario) -> str:
    """SHA-256 of kubeskew's own files, the scenario's file, the files that it names, and real programs."""
    source = Path(scenario.source)
    operations = [operation for step in scenario.steps for operation in step.all_operations()]
    named = {operation.body.get("file") for operation in operations}
    digest = sha256(digest_of_package())
    if scenario.programs is not None:
        digest.update(scenario.programs.digest())
    for path in (source, *(source.parent / name for name in sorted(filter(None, named)))):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


@functools.cache
def digest_of_package() -> bytes:
    """SHA-256 of the modules and data of kubeskew, which may be an edited checkout.

    The scenarios that come with it are left out: those that are run have digests of their own.
    """
    digest = sha256()
    for folder, folders, names in os.walk(Path(kubeskew.__file__).parent, followlinks=True):
        folders[:] = sorted(name for name in folders if name not in {"__pycache__", "scenarios"})
        for name in sorted(names):
            digest.update((Path(folder) / name).read_bytes())
    return digest.digest()


def taken_over(directory: Path, title: str, cells: Sequence[Cell]) -> list[CellResult]:
    """Results of a directory's report that still hold; there are none without a report.

    Raises ScenarioError if the report is of another run, of another format, or damaged.
    """
    path = directory / REPORT
    remedy = "choose another directory for --report, or leave out --resume to overwrite it"
    try:
        report = json.loads(path.read_text())
        format_version, its_title = report["formatVersion"], report["title"]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScenarioError(f"{path}: this report is damaged ({_message(error)}): {remedy}") from error
    if format_version != FORMAT_VERSION:
        raise ScenarioError(
            f"{path}: its formatVersion is {format_version!r}, this kubeskew reads {FORMAT_VERSION}: {remedy}"
        )
    if its_title != title:
        raise ScenarioError(f"{path}: this is a report of {its_title!r}, not of {title!r}: {remedy}")
    try:
        found = {value["name"]: value for value in report["cells"]}
        if others := [name for name in found if name not in {cell.name for cell in cells}]:
            raise ScenarioError(
                f"{path}: it has cells that were not asked for, such as {others[0]}: give --only and --shard "
                f"as before, or {remedy}"
            )
        results = {cell.name: restored(cell, found[cell.name]) for cell in cells if _holds(cell, found)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ScenarioError(f"{path}: this report is damaged ({_message(error)}): {remedy}") from error
    return [results[cell.name] for cell in _comparable(cells, results)]


def _message(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {error.args[0]}"
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__


def _holds(cell: Cell, found: Mapping[str, Any]) -> bool:
    """The report must have the cell, run to its end without failing, with the digest of now."""
    value = found.get(cell.name)
    if (
        value is None
        or value["result"] == FAILED
        or not value["digest"]
        or (cell.emulated() is not None and not _is_alike(value["sideBySide"]))
        or value["digest"] != digest_of(cell.scenario)
    ):
        return False
    return bool(json.loads(json.dumps(cell.parameters)) == value["parameters"])


def _is_alike(value: Mapping[str, Any] | None) -> bool:
    """The emulated lane was run, too, did not fail, and differs in nothing."""
    return value is not None and value["emulated"]["result"] != FAILED and not value["differences"]


def _comparable(cells: Sequence[Cell], results: Mapping[str, CellResult]) -> list[Cell]:
    """Leaves out results whose comparison with a baseline needs another run.

    A report has the outcome of a comparison, not the records that were compared: a cell and its baseline are
    run together.
    """
    names = {cell.name for cell in cells}
    needed = {cell.baseline for cell in cells if cell.name not in results}
    kept = [cell for cell in cells if cell.name in results and cell.name not in needed]
    # a cell whose baseline was not ready was not compared
    return [cell for cell in kept if cell.baseline not in names - results.keys()]


def restored(cell: Cell, value: Mapping[str, Any]) -> CellResult:
    """Marks of the cell judge the restored result. Raises KeyError, TypeError and the like if the report is
    damaged."""
    divergence, lanes, emulated = value["divergence"], value["sideBySide"], cell.emulated()
    return CellResult(
        cell.name,
        cell.scenario.name,
        cell.parameters,
        [_step(step) for step in value["steps"]],
        value["seconds"],
        value["error"],
        expected_failures=cell.expected_failures(),
        exemptions=cell.exemptions(),
        observations=value["observations"],
        baseline=value["baseline"],
        components=[ComponentRun(**run) for run in value["components"]],
        branches={name: [ComponentRun(**run) for run in runs] for name, runs in value["branches"].items()},
        pods=[PodLife(**_life(life)) for life in value["pods"]],
        objects=[ObjectLife(**_life(life)) for life in value["objects"]],
        calls=[DriverCall(**call) for call in value["calls"]],
        logs=value["logs"],
        faults=[FaultMoment(**moment) for moment in value["faults"]],
        began=value["began"],
        ended=value["ended"],
        seed=value["seed"],
        log_hash=value["logHash"] if value["logHashOf"] == "log" else "",
        record=Record([], value["logHash"]) if value["logHashOf"] == "scrubbed log" else None,
        divergence=divergence
        and Divergence(
            **{**divergence, "differences": [Difference(**entry) for entry in divergence["differences"]]}
        ),
        digest=value["digest"] or "",
        side_by_side=lanes
        and SideBySide(
            restored(emulated or cell, lanes["emulated"]),
            [LaneDifference(**entry) for entry in lanes["differences"]],
        ),
    )


def _life(value: Mapping[str, Any]) -> dict[str, Any]:
    return {**value, "events": [LifeEvent(**event) for event in value["events"]]}


def _step(value: Mapping[str, Any]) -> StepResult:
    first, last = value["revisions"]
    return StepResult(
        value["name"],
        [_operation(operation) for operation in value["operations"]],
        value["events"],
        not_run=value["notRun"],
        impossible=value["impossible"],
        behind=value["behind"],
        revisions=(first, last),
        since=value["since"],
        until=value["until"],
    )


def _operation(value: Mapping[str, Any]) -> OperationResult:
    return OperationResult(
        *(value["title"], value["kind"], value["seconds"], value["expected"], value["found"]),
        block=value["block"],
        about=value["about"],
        broken=value["broken"],
        not_run=value["notRun"],
        shown=value["shown"],
        impossible=value["impossible"],
        value=value["value"],
    )

"""Recorded outcomes of every step of every cell, to be compared with those of a later run.

A green cell has done as its file says. The record has every step, so that a step that is no longer run, or
fails otherwise than before, is a difference that somebody must look at.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.comparison import GeneratedNames, scrubbed
from kubeskew.conformance.results import EXPECTED, FAILED, NOT_RUN, CellResult, StepResult, StepVerdict

RECORD = Path(__file__).parent / "outcomes.json"

_REVISION = re.compile(r"revision=[0-9]+")  # as the API server's errors write it
Outcome = Mapping[str, Any]  # `{result, steps: {name: verdict}}`
ON_REAL = f"{NOT_RUN} on a real program"


def is_incomparable(step: StepResult, verdict: StepVerdict) -> bool:
    """True of a step that shows nothing, since a real program cannot do what it or one before it asks."""
    return verdict.outcome == NOT_RUN and bool(step.impossible or step.behind)


def outcome(cell: CellResult) -> Outcome:
    """Generated names are left out, which differ from run to run."""
    steps: dict[str, str] = {}
    for step, verdict in cell.verdicts():
        count = sum(other.name == step.name for other in cell.steps[: len(steps)])
        steps[f"{step.name} #{count + 1}" if count else step.name] = verdict_text(cell, step, verdict)
    return {"result": cell.outcome, "steps": steps}


def verdict_text(cell: CellResult, step: StepResult, verdict: StepVerdict) -> str:
    """`passed`, or the text of an expected failure, or the reason that the step was not run, or its
    failure."""
    if is_incomparable(step, verdict):
        return f"{ON_REAL}: {GeneratedNames()(verdict.why.splitlines()[0])}"
    if verdict.outcome == EXPECTED:
        marks = cell.expected_failures[step.name]
        found = [mark.matched(failure.found) for failure in step.failures for mark in marks]
        texts = list(dict.fromkeys(filter(None, found)))
        if step.operations_not_run:
            texts.append(f"{step.operations_not_run} operations behind it not run")
    elif verdict.outcome in {NOT_RUN, FAILED}:
        texts = [verdict.why.splitlines()[0]] if verdict.why else []
    else:
        texts = []
    scrubbed = GeneratedNames()
    return ": ".join([verdict.outcome, *([scrubbed("; ".join(texts))] if texts else [])])


def comparable(verdict: str) -> str:
    """A verdict's text without what differs from run to run, which is also the order of expected failures."""
    outcome, _, texts = verdict.partition(": ")
    parts = sorted(texts.split("; ")) if outcome == EXPECTED else [texts]
    return _REVISION.sub("revision=#", scrubbed(": ".join(filter(None, (outcome, "; ".join(parts))))))


def read(path: Path) -> dict[str, Outcome]:
    """The mapping is empty if there is no record. Raises ScenarioError if it is damaged."""
    try:
        recorded: dict[str, Outcome] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: these are no recorded outcomes: {error}") from error
    return recorded


def record(path: Path, cells: Sequence[CellResult], known: Sequence[str] | None = None) -> list[str]:
    """Adds the outcomes of these cells to the record; the names of cells that are left out are returned.

    A cell that failed keeps its recorded outcome: a failure is not recorded. With `known`, the names of all
    cells there are, outcomes of other cells are removed.
    """
    recorded = read(path)
    failed = [cell.name for cell in cells if not cell.passed]
    recorded |= {cell.name: outcome(cell) for cell in cells if cell.passed}
    kept = {name: recorded[name] for name in sorted(recorded) if known is None or name in known}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    return failed


def differences(
    recorded: Mapping[str, Outcome], cells: Sequence[CellResult], known: Sequence[str] | None = None
) -> Iterator[str]:
    """A line for each step of these cells whose outcome is not the recorded one, cell by cell, but for what
    differs from run to run.

    With `known`, the names of all cells there are, each recorded cell that is gone has a line, too.
    """
    for cell in cells:
        if cell.name not in recorded:
            yield f"{cell.name}: not recorded yet"
            continue
        before, now = recorded[cell.name], outcome(cell)
        if before["result"] != now["result"]:
            yield f"{cell.name}: was {before['result']}, is {now['result']}"
        for step in dict.fromkeys([*before["steps"], *now["steps"]]):
            old, new = before["steps"].get(step, "no such step"), now["steps"].get(step, "no such step")
            if comparable(old) != comparable(new):
                yield f"{cell.name}: {step}: was {old}, is {new}"
    for name in recorded if known is not None else ():
        if name not in (known or ()):
            yield f"{name}: recorded, but there is no such cell any more"

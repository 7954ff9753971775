"""Writes results of a run as Markdown, under the questions of a KEP's production-readiness review.

The questions are spelled as in the KEP template (kubernetes/enhancements, keps/NNNN-kep-template/README.md).
Answers are of the records of the run alone: versions and gates of components are taken from each cell's log,
not from the scenario's name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeskew.apimachinery.clock import timestamp
from kubeskew.conformance.evidence.components import (
    ComponentPath,
    Transitions,
    component_paths,
    gates_by_hand,
    transitions,
)
from kubeskew.conformance.report import Repeating, Run
from kubeskew.conformance.results import (
    EXPECTED,
    FAILED,
    NOT_RUN,
    OUTCOMES,
    PASSED,
    CellResult,
    StepResult,
    StepVerdict,
)

_SHOWN = 400  # characters of what was found
_OUTCOMES = {PASSED: "passed", EXPECTED: "fails as upstream", FAILED: "FAILED", NOT_RUN: "not run"}

_Branches = Mapping[str, Sequence[ComponentPath]]  # ways of components, by branch


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the kinds of cells that answer it, each with the words for it."""

    text: str
    kinds: Mapping[str, Callable[[Transitions], bool]]  # true if one branch of a cell answers it


QUESTIONS = (
    Question(
        "What happens if we reenable the feature if it was previously rolled back?",
        {"switch a gate on, off and on again": lambda found: found.reenabled},
    ),
    Question(
        "Are there any tests for feature enablement/disablement?",
        {
            "switch a gate on in a running cluster": lambda found: found.enabled,
            "switch a gate off in a running cluster": lambda found: found.disabled,
            "switch a gate by moving to a release with another default": lambda found: found.by_default,
        },
    ),
    Question(
        "Were upgrade and rollback tested? Was the upgrade->downgrade->upgrade path tested?",
        {
            "upgrade components": lambda found: found.upgraded,
            "downgrade components": lambda found: found.downgraded,
            "take the upgrade->downgrade->upgrade path": lambda found: found.upgraded_again,
        },
    ),
)


@dataclass(frozen=True, slots=True)
class StepRow:
    name: str
    asked: str
    outcome: str


@dataclass(frozen=True, slots=True)
class CellRow:
    name: str
    path: str
    outcome: str
    steps_run: int
    steps_not_run: int
    log: str
    command: str
    steps: Sequence[StepRow]


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with a line for each kind of cell, and the failures and gaps of these cells."""

    question: str
    lines: Sequence[str]
    cells: Sequence[CellRow]
    upstream: Sequence[str]
    not_run: Sequence[str]


def as_markdown(run: Run, version: str, repeating: Repeating, gates: Iterable[str] = ()) -> str:
    """Defaults of the `gates`, and of gates that a cell sets by hand, count, too."""
    from jinja2 import Environment, PackageLoader

    ways = {cell.name: cell.ways for cell in run.cells}
    by_hand = (gates_by_hand(runs) for branches in ways.values() for runs in branches.values())
    named = sorted({*gates, *(name for found in by_hand for name in found)})
    paths = {
        cell: {name: component_paths(runs, named) for name, runs in branches.items()}
        for cell, branches in ways.items()
    }
    rows = {cell.name: _row(cell, repeating, paths[cell.name]) for cell in run.cells}
    environment = Environment(
        loader=PackageLoader("kubeskew.conformance"),
        autoescape=False,  # noqa: S701 - Markdown, which `_plain` escapes
        trim_blocks=True,
    )
    environment.filters |= {"entry": _entry, "plain": _plain}
    text = environment.get_template("review.md").render(
        run=run,
        version=version,
        started=timestamp(run.started),
        mode=_mode(run.cells),
        counts=_counts,
        command=repeating.run(),
        gates=named,
        answers=[_answer(question, run.cells, rows, paths) for question in QUESTIONS],
        cells=rows.values(),
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def _answer(
    question: Question,
    cells: Sequence[CellResult],
    rows: Mapping[str, CellRow],
    paths: Mapping[str, _Branches],
) -> Answer:
    found = {cell.name: [transitions(of) for of in paths[cell.name].values()] for cell in cells}
    lines: list[str] = []
    chosen: dict[str, CellResult] = {}
    for kind, holds in question.kinds.items():
        those = [cell for cell in cells if cell.outcome != NOT_RUN and any(map(holds, found[cell.name]))]
        chosen |= {cell.name: cell for cell in those}
        number = len(those) or "none"
        outcomes = _counts(those) if those else "this run does not show it"
        lines.append(f"Cells that {kind}: {number} of {len(cells)} ({outcomes}).")
    named = [cell for cell in cells if cell.name in chosen]
    return Answer(
        question.text,
        lines,
        [rows[cell.name] for cell in named],
        list(dict.fromkeys(line for cell in named for line in _upstream(cell))),
        list(dict.fromkeys(line for cell in named for line in _gaps(cell))),
    )


def _counts(cells: Sequence[CellResult]) -> str:
    numbers = {outcome: sum(cell.outcome == outcome for cell in cells) for outcome in OUTCOMES}
    words = {PASSED: "passed", EXPECTED: "failed as upstream", FAILED: "failed", NOT_RUN: "could not be run"}
    return ", ".join(
        f"{number} {words[outcome]}" for outcome, number in numbers.items() if number or outcome == FAILED
    )


def _upstream(cell: CellResult) -> Iterator[str]:
    for step, verdict in cell.verdicts():
        if verdict.outcome == EXPECTED:
            yield f"`{cell.name}`, {step.name}: fails as upstream: {verdict.reason} ({verdict.source})"
        elif verdict.outcome == FAILED:
            yield f"`{cell.name}`, {step.name}: FAILED: {_cut(verdict.why)}"


def _gaps(cell: CellResult) -> Iterator[str]:
    for step, verdict in cell.verdicts():
        if verdict.outcome == NOT_RUN:
            why = ": ".join(filter(None, (verdict.why, verdict.reason)))
            yield f"`{cell.name}`, {step.name}: not run: {why}"


def _row(cell: CellResult, repeating: Repeating, paths: _Branches) -> CellRow:
    log = "" if cell.seed is None else f" Log of seed {cell.seed}: {cell.log_hash}."
    return CellRow(
        cell.name,
        _paths(paths) or "nothing ran",
        _OUTCOMES[cell.outcome],
        cell.steps_run,
        cell.steps_not_run,
        log,
        repeating.cell(cell),
        [_step(cell, step, verdict) for step, verdict in cell.verdicts()],
    )


def _step(cell: CellResult, step: StepResult, verdict: StepVerdict) -> StepRow:
    asked = [f"{each.kind} {each.about}".strip() for each in step.operations if each.block == "try"]
    outcome = _OUTCOMES[verdict.outcome]
    if verdict.outcome == EXPECTED:
        marks = cell.expected_failures[step.name]
        found = [mark.matched(failure.found) for failure in step.failures for mark in marks]
        texts = "; ".join(dict.fromkeys(filter(None, found)))
        outcome += f": {verdict.reason} ({verdict.source}); found: {_cut(texts)}"
    elif verdict.why:
        outcome += f": {_cut(verdict.why)}"
    return StepRow(step.name, ", ".join(dict.fromkeys(asked)), outcome)


def _paths(branches: _Branches) -> str:
    return "; ".join(f"{name} ({_path(paths)})" if name else _path(paths) for name, paths in branches.items())


def _path(paths: Sequence[ComponentPath]) -> str:
    together: dict[str, list[str]] = {}
    for path in paths:
        gates = [
            f"{name} {' → '.join(_side(side) for side in sides)}{' by default' * (name in path.by_default)}"
            for name, sides in path.gates.items()
        ]
        together.setdefault(", ".join([" → ".join(path.versions), *gates]), []).append(path.component)
    if len(together) == 1:
        return next(iter(together))
    return "; ".join(f"{', '.join(components)}: {way}" for way, components in together.items())


def _side(on: bool) -> str:
    return "on" if on else "off"


def _mode(cells: Sequence[CellResult]) -> str:
    seeds = sorted({cell.seed for cell in cells if cell.seed is not None})
    if not seeds:
        return "with a process for each component"
    return f"simulated with seed {', '.join(map(str, seeds))}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _entry(text: str) -> str:
    """Text that has no line break or bar stays in its cell of a table."""
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text becomes one line without markup of HTML."""
    return " ".join(text.split()).replace("<", "&lt;")

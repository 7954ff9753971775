"""Compares a cell that ran with real programs with the same cell, emulated, step by step.

Results are compared by their texts, metrics by the values that the scenario read. Objects and events are
compared as runs are with their baseline: by the end of a step, each fact of one lane must have been seen in
the other at some time, for which of two writes is first is chance. From the first step that a real program
cannot do, the lanes have other objects, and only results are compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeskew.conformance.evidence.comparison import (
    ABSENT,
    GONE,
    PRESENT,
    Record,
    SeenEvent,
    Subject,
    scrubbed,
)
from kubeskew.conformance.outcomes import comparable, is_incomparable, verdict_text
from kubeskew.conformance.results import CellResult, LaneDifference, SideBySide, StepResult, StepVerdict

RESULT, OBJECT, EVENT, METRIC = "result", "object", "event", "metric"
_ACCOUNTS = ("serviceaccounts", "kube-system")  # as which the controllers of a program speak to the server
_TIMED = ("_seconds", "_seconds_sum", "_milliseconds", "_milliseconds_sum")  # values that no two runs share
_Judged = tuple[StepResult, StepVerdict]


def side_by_side(real: CellResult, emulated: CellResult) -> SideBySide:
    return SideBySide(emulated, [*_differences(real, emulated)])


def _differences(real: CellResult, emulated: CellResult) -> Iterator[LaneDifference]:
    if scrubbed(real.error) != scrubbed(emulated.error):
        yield LaneDifference("the cell", RESULT, "", real.error or "no error", emulated.error or "no error")
        return
    ones, others = _by_name(real), _by_name(emulated)
    ends, other_ends = _ends(real, ones), _ends(emulated, others)
    known: set[tuple[Any, ...]] = set()
    together = True
    for name in dict.fromkeys([*ones, *others]):
        one, other = ones.get(name), others.get(name)
        together = together and not (one is not None and one[0].impossible)
        if one is not None and is_incomparable(*one):
            continue
        texts = _text(real, one), _text(emulated, other)
        if texts[0] != texts[1]:
            yield LaneDifference(name, RESULT, "", *texts)
        if one is None or other is None:
            continue
        yield from _metrics(name, one[0], other[0])
        if together and real.record and emulated.record and name in ends and name in other_ends:
            lanes = (real.record, ends[name]), (emulated.record, other_ends[name])
            for each in (*_objects(name, *lanes), *_events(name, *lanes)):
                if (key := (each.kind, each.about, each.real, each.emulated)) not in known:
                    known.add(key)
                    yield each


def _by_name(cell: CellResult) -> dict[str, _Judged]:
    """Steps of one name are numbered in their order."""
    found: dict[str, _Judged] = {}
    counts: dict[str, int] = {}
    for step, verdict in cell.verdicts():
        counts[step.name] = counts.get(step.name, 0) + 1
        number = f" #{counts[step.name]}" if counts[step.name] > 1 else ""
        found[f"{step.name}{number}"] = (step, verdict)
    return found


def _ends(cell: CellResult, steps: Mapping[str, _Judged]) -> dict[str, int]:
    """The places in the cell's record of the steps at whose ends it has the objects: what is judged after the
    last of them, as invariants are, has none.
    """
    run = [name for name, (step, _) in steps.items() if not step.not_run]
    kept = len(cell.record.states) if cell.record is not None else 0
    return {name: index for index, name in enumerate(run[:kept])}


def _text(cell: CellResult, judged: _Judged | None) -> str:
    return comparable(verdict_text(cell, *judged)) if judged is not None else "no such step"


def _metrics(step: str, real: StepResult, emulated: StepResult) -> Iterator[LaneDifference]:
    for one, other in zip(real.operations, emulated.operations, strict=False):
        if one.kind != METRIC or other.kind != METRIC or None in (one.value, other.value):
            continue
        if one.about.endswith(_TIMED):
            continue
        values = _countable(one.value), _countable(other.value)
        if values[0] != values[1]:
            about = f"{one.title}, {one.about}" if one.title != one.kind else one.about
            yield LaneDifference(step, METRIC, about, *(f"{value:g}" for value in values))


def _countable(value: Any) -> float:
    """Of a histogram, the number of observations: how long they took differs in every run."""
    return float(value["count"] if isinstance(value, Mapping) else value)


def _objects(step: str, real: tuple[Record, int], emulated: tuple[Record, int]) -> Iterator[LaneDifference]:
    unseen = [*_unseen(*real, emulated[0]), *_unseen(*emulated, real[0])]
    if not unseen:
        return
    one, other = _state(*real), _state(*emulated)
    for subject in sorted({subject for subject, _ in unseen}):
        resource, namespace, name = subject
        about = f"{resource} {'/'.join(filter(None, (namespace, name)))}"
        there = [PRESENT if subject in each else ABSENT for each in (one, other)]
        if there[0] != there[1]:
            yield LaneDifference(step, OBJECT, about, *there)
            continue
        for path in sorted({path for each, path in unseen if each == subject}):
            values = [", ".join(each.get(subject, {}).get(path, ())) or ABSENT for each in (one, other)]
            if scrubbed(values[0]) != scrubbed(values[1]):
                yield LaneDifference(step, OBJECT, f"{about} {path}", *values)


def _state(record: Record, index: int) -> dict[Subject, dict[str, list[str]]]:
    """Values by path of each object that is there."""
    found: dict[Subject, dict[str, list[str]]] = {}
    for subject, fact in sorted(record.states[index]):
        if fact != GONE:
            found.setdefault(subject, {}).setdefault(fact[0], []).append(fact[1])
    return found


def _unseen(record: Record, index: int, other: Record) -> list[tuple[Subject, str]]:
    """Objects and paths with values that the other lane never had, but for what differs in every run."""
    unseen = sorted(record.states[index] - other.seen.keys())
    found = [(subject, fact) for subject, fact in unseen if subject[:2] != _ACCOUNTS]
    if not found:
        return []
    places = {(subject, path) for subject, (path, _) in found}
    alike = {(s, path, scrubbed(value)) for s, (path, value) in other.seen if (s, path) in places}
    return [(s, path) for s, (path, value) in found if (s, path, scrubbed(value)) not in alike]


def _events(step: str, real: tuple[Record, int], emulated: tuple[Record, int]) -> Iterator[LaneDifference]:
    """Events of one type, reason and object are one difference, with their texts."""
    one, other = _unseen_events(*real, emulated[0]), _unseen_events(*emulated, real[0])
    for key in sorted({*one, *other}):
        texts = ["; ".join(sorted(each.get(key, ()))) or ABSENT for each in (one, other)]
        yield LaneDifference(step, EVENT, " ".join(filter(None, key)), *texts)


def _unseen_events(record: Record, index: int, other: Record) -> dict[tuple[str, str, str], list[str]]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for event in _until(record.events.items(), record.ends[index]):
        if event not in other.events:
            found.setdefault((event.type, event.reason, event.about), []).append(event.message)
    return found


def _until(events: Iterable[tuple[SeenEvent, int]], end: int) -> Iterator[SeenEvent]:
    return (event for event, revision in events if revision <= end)

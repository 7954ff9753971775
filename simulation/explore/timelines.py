"""Lays two runs of a cell side by side: the one with the faults, and the one without, where they part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.changes import changes
from kubeskew.conformance.evidence.log import FAULT, ComponentChange, Logged, Write
from kubeskew.conformance.invariants.controllers import is_heartbeat

_BEFORE = 4  # rows that both have, before they part
_AFTER = 12  # rows of each behind that
_AROUND = 4  # rows before what was found, where that comes later
_FIELDS = 3  # changes shown of a write

_ABOUT_THE_PLAN = (f"{FAULT}set", f"{FAULT}cleared")  # the plan stands next to the lines, and changes nothing

PARTED, FAULTY, FOUND = "parted", "fault", "found"


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a log in a line. `seconds` are virtual ones since the log began."""

    revision: int
    seconds: float
    by: str
    what: str
    mark: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "seconds": round(self.seconds, 3),
            "by": self.by,
            "what": self.what,
            "mark": self.mark,
        }


Pair = tuple[Row | None, Row | None]  # with the faults, and without


def side_by_side(log: Sequence[Logged], other: Sequence[Logged], found: int = 0) -> list[Pair]:
    """Rows are those around the first entry that one run has and the other has not, and around a finding at
    the revision `found` of the first. Rows that both have stand side by side."""
    rows, others = _rows(log, found), _rows(other, 0)
    parted = _parting(rows, others)
    begin = max(0, parted - _BEFORE)
    left, right = rows[begin : parted + _AFTER], others[begin : parted + _AFTER]
    pairs = list(_aligned(left, right, parted - begin))
    shown = {row.revision for row, _ in pairs if row is not None}
    at = next((index for index, row in enumerate(rows) if row.mark == FOUND), None)
    if at is not None and rows[at].revision not in shown:
        later = rows[max(parted + _AFTER, at - _AROUND) : at + 2]
        pairs += [(None, None), *((row, None) for row in later)]  # a gap
    return pairs


def _parting(rows: Sequence[Row], others: Sequence[Row]) -> int:
    """The first row counts that the other run does not have at its place."""
    for index, (row, other) in enumerate(zip(rows, others, strict=False)):
        if (row.by, row.what) != (other.by, other.what):
            return index
    return min(len(rows), len(others))


def _aligned(left: Sequence[Row], right: Sequence[Row], parted: int) -> Iterator[Pair]:
    keys = [(row.by, row.what) for row in left]
    matcher = SequenceMatcher(None, keys, [(row.by, row.what) for row in right], autojunk=False)
    for _, begin, end, begins, ends in matcher.get_opcodes():
        for offset in range(max(end - begin, ends - begins)):
            one = left[begin + offset] if begin + offset < end else None
            two = right[begins + offset] if begins + offset < ends else None
            parting = begin + offset == parted and one is not None and not one.mark
            yield (_marked(one, PARTED) if parting and one else one), two


def _marked(row: Row, mark: str) -> Row:
    return Row(row.revision, row.seconds, row.by, row.what, mark)


def _rows(log: Sequence[Logged], found: int) -> list[Row]:
    """Heartbeats are left out; the last row up to the revision `found` is marked."""
    if not log:
        return []
    began = parse_timestamp(log[0].time)
    objects: dict[tuple[str, str, str], ObjectView] = {}
    rows: list[Row] = []
    for entry in log:
        seconds = (parse_timestamp(entry.time) - began).total_seconds()
        if isinstance(entry, ComponentChange):
            if entry.what in _ABOUT_THE_PLAN:
                continue
            mark = FAULTY if entry.what.startswith(FAULT) else ""
            what = " ".join(filter(None, (entry.what, entry.detail)))
            rows.append(Row(entry.revision, seconds, entry.component, what, mark))
        elif not is_heartbeat(entry):
            rows.append(Row(entry.revision, seconds, entry.by, _description(entry, objects)))
    at = max((index for index, row in enumerate(rows) if row.revision <= found), default=None)
    if found and at is not None:
        rows[at] = _marked(rows[at], FOUND)
    return rows


def _description(write: Write, objects: dict[tuple[str, str, str], ObjectView]) -> str:
    """Describes a write, and applies it to the state of all objects."""
    key = (write.resource, write.namespace, write.name)
    place = "/".join(filter(None, key[1:]))
    text = f"{write.verb} {write.resource.partition('.')[0]} {place}"
    before: Mapping[str, Any] | None = objects.pop(key, None)
    if write.verb == "delete":
        return text
    objects[key] = write.value
    if before is None:
        return text
    fields = [str(change) for change in changes(before, write.value)]
    more = f" and {len(fields) - _FIELDS} more" if len(fields) > _FIELDS else ""
    return f"{text}: {'; '.join(fields[:_FIELDS])}{more}" if fields else text

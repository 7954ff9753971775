"""Tells which known bugs the recordings with real programs show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.conformance import real_outcomes
from kubeskew.conformance.results import EXPECTED, PASSED


@dataclass(slots=True)
class Seen:
    """The cells of a bug, by their labels, in which real programs had it, and in which they had not."""

    seen: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def seen_bugs() -> Mapping[str, Seen]:
    """Finds them in the recordings. A cell counts if the program that has the bug was a real one: what an
    emulated component does shows nothing.
    """
    bugs = known_bugs()
    found: dict[str, Seen] = {}
    for cell, ways in sorted(real_outcomes.read(real_outcomes.DIRECTORY).items()):
        area, _, rest = cell.partition("/")
        bug, _, label = rest.partition("/")
        if area != "known-bugs" or bug not in bugs:
            continue
        for way in ways.values():
            results = [way["result"]] if isinstance(way["result"], str) else way["result"]
            if not {kind_of(name) for name in way["real"]} & {bugs[bug].component, *bugs[bug].also}:
                continue
            entry = found.setdefault(bug, Seen())
            _note(entry.seen, label, results, EXPECTED)
            _note(entry.absent, label, results, PASSED)
    return {bug: entry for bug, entry in found.items() if entry.seen or entry.absent}


def _note(labels: list[str], label: str, results: Sequence[str], wanted: str) -> None:
    if results == [wanted] and label not in labels:
        labels.append(label)

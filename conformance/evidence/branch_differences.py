"""Compares the branches of a forked cluster: the objects of each as they are now, without what is chance."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeskew.conformance.evidence.log import Logged, Write
from kubeskew.conformance.evidence.record import GONE, record

ABSENT, PRESENT = "absent", "present"
Fields = Mapping[tuple[str, str], Mapping[str, str]]  # (resource, name) → path → value


@dataclass(frozen=True, slots=True)
class BranchDifference:
    """A field of an object that is not the same in all branches; the path is empty of an object that only
    some have."""

    object: str  # pods/web-0
    path: str
    values: Mapping[str, str]  # by branch

    def __str__(self) -> str:
        told = ", ".join(f"{branch} {value}" for branch, value in self.values.items())
        return f"{self.object}: {f'{self.path}: ' if self.path else ''}{told}"


@dataclass(frozen=True, slots=True)
class ExpectedDifference:
    """A difference that a scenario names. In object and path `*` stands for any text; values of branches need
    not be said."""

    object: str
    path: str
    values: Mapping[str, str]

    def matches(self, found: BranchDifference) -> bool:
        return (
            _fits(found.object, self.object)
            and _fits(found.path, self.path)
            and all(found.values.get(branch) == value for branch, value in self.values.items())
        )

    def __str__(self) -> str:
        return str(BranchDifference(self.object, self.path, self.values)).rstrip(": ")


def _fits(text: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


def fields(log: Iterable[Logged], namespace: str, resources: Collection[str]) -> Fields:
    """Returns the fields of the objects as a log leaves them: those of a namespace or, of the `resources` if
    there are any, also those without one. Names are as they would be in every run."""
    state = record(_until_end(log), [_LAST]).states[-1]
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (resource, place, name), fact in sorted(state):
        plural = resource.partition(".")[0]
        wanted = {resource, plural} & {*resources} if resources else bool(place)
        if wanted and place in ("", namespace) and fact != GONE:
            path, value = fact
            found.setdefault((plural, name), {}).setdefault(path, []).append(value)
    return {key: {path: ", ".join(values) for path, values in paths.items()} for key, paths in found.items()}


_LAST = 2**62  # no log goes as far


def _until_end(log: Iterable[Logged]) -> Iterable[Logged]:
    return (entry for entry in log if isinstance(entry, Write))


def differences(branches: Mapping[str, Fields]) -> list[BranchDifference]:
    """Returns what is not the same in all branches, in the order of objects and paths."""
    found = []
    for key in sorted({key for each in branches.values() for key in each}):
        resource, name = key
        there = {branch: ABSENT if key not in each else PRESENT for branch, each in branches.items()}
        if ABSENT in there.values():
            found.append(BranchDifference(f"{resource}/{name}", "", there))
            continue
        for path in sorted({path for each in branches.values() for path in each[key]}):
            values = {branch: each[key].get(path, ABSENT) for branch, each in branches.items()}
            if len({*values.values()}) > 1:
                found.append(BranchDifference(f"{resource}/{name}", path, values))
    return found


def unexpected(
    found: Sequence[BranchDifference], expected: Sequence[ExpectedDifference]
) -> tuple[list[BranchDifference], list[ExpectedDifference]]:
    """Returns the differences that nothing names, and the names of differences that are none."""
    extra = [each for each in found if not any(entry.matches(each) for entry in expected)]
    missing = [entry for entry in expected if not any(map(entry.matches, found))]
    return extra, missing

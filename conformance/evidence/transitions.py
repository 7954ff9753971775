"""Tells which versions and gates the components of a cell went through, and what changes these were."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from kubeskew.apimachinery.component_names import UNVERSIONED, kind_of
from kubeskew.apimachinery.gates import FeatureGates, parse_overrides
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.skew import upgrade_order
from kubeskew.conformance.evidence.component_runs import ComponentRun

T = TypeVar("T")
Sides = Sequence[bool]


@dataclass(frozen=True, slots=True)
class ComponentPath:
    """The versions that a component ran at, and of each gate whether it was on; repetitions are left out."""

    component: str
    versions: tuple[str, ...]
    gates: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    by_default: frozenset[str] = (
        frozenset()
    )  # gates that went over because another release has another default


@dataclass(frozen=True, slots=True)
class Transitions:
    """The kinds of changes that the components of a cell went through, each true if one of them did."""

    upgraded: bool = False
    downgraded: bool = False
    upgraded_again: bool = False  # up, down, and up
    enabled: bool = False  # a gate, by hand or by a release that has it on by default
    disabled: bool = False
    reenabled: bool = False  # on, off, and on
    by_default: bool = False  # one of these because a release has the gate otherwise by default


def gates_by_hand(runs: Iterable[ComponentRun]) -> list[str]:
    """Returns the gates that were set by hand in any of the runs, sorted."""
    return sorted({name for run in runs for name in parse_overrides(run.gates)})


def component_paths(runs: Iterable[ComponentRun], named: Iterable[str] = ()) -> list[ComponentPath]:
    """Returns the way of each component in the order of upgrades, without those that have no version.

    Gates are those that were set by hand in any of the runs, and of those that are `named` the ones that
    changed; where one was not set, its default counts.
    """
    by_component: dict[str, list[ComponentRun]] = {}
    for run in runs:
        if kind_of(run.component) not in UNVERSIONED:
            by_component.setdefault(run.component, []).append(run)
    overrides = {
        id(run): parse_overrides(run.gates) for its_runs in by_component.values() for run in its_runs
    }
    by_hand = {name for gates in overrides.values() for name in gates}
    names = sorted(by_hand | {*named})
    paths = []
    for component in upgrade_order(sorted(by_component)):
        its_runs = by_component[component]
        gates = [FeatureGates(Version.parse(run.version), overrides[id(run)]) for run in its_runs]
        sides = {name: _without_repetitions(gate.enabled(name) for gate in gates) for name in names}
        shown = {name: found for name, found in sides.items() if name in by_hand or len(found) > 1}
        moved = frozenset(
            name
            for name in names
            for (before, first), (after, second) in pairwise(zip(its_runs, gates, strict=True))
            if first.enabled(name) != second.enabled(name)
            and not {name} & {*overrides[id(before)], *overrides[id(after)]}
        )
        versions = _without_repetitions(run.version for run in its_runs)
        paths.append(ComponentPath(component, versions, shown, moved))
    return paths


def transitions(paths: Sequence[ComponentPath]) -> Transitions:
    """Returns the kinds of changes on these ways."""
    ways = [[*_directions(path.versions)] for path in paths]
    gates = [sides for path in paths for sides in path.gates.values()]
    return Transitions(
        upgraded=any(True in way for way in ways),
        downgraded=any(False in way for way in ways),
        upgraded_again=any(_has(way, (True, False, True)) for way in ways),
        enabled=any(_has(sides, (False, True)) for sides in gates),
        disabled=any(_has(sides, (True, False)) for sides in gates),
        reenabled=any(_has(sides, (True, False, True)) for sides in gates),
        by_default=any(path.by_default for path in paths),
    )


def _directions(versions: Sequence[str]) -> Iterator[bool]:
    """Yields of each change of the version whether it is an upgrade."""
    for before, after in pairwise(map(Version.parse, versions)):
        yield before < after


def _has(sides: Sides, wanted: Sides) -> bool:
    """Returns whether the wanted sides come in this order, whatever is between them."""
    rest = iter(sides)
    return all(side in rest for side in wanted)


def _without_repetitions(values: Iterable[T]) -> tuple[T, ...]:
    kept: list[T] = []
    for value in values:
        if not kept or kept[-1] != value:
            kept.append(value)
    return tuple(kept)

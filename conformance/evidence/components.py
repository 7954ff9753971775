"""The runs of components: the times in which each had one version and one set of gates, and its faults.

The changes between runs are the transitions of a cell. Faults have the moments at which they were set, fired
and were cleared, and the crashes that they caused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.gates import FeatureGates, parse_overrides
from kubeskew.apimachinery.known_names import DRIVER, UNVERSIONED, kind_of
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.skew import upgrade_order
from kubeskew.conformance.evidence.log import BRANCHED, FAULT, ComponentChange, Logged
from kubeskew.conformance.programs import announced

STARTED = "started"
CRASHED = "crashed"
T = TypeVar("T")
Sides = Sequence[bool]


@dataclass(slots=True)
class ComponentRun:
    """A component at one version and gate set; `until` is empty while it runs, `ended` is the manner of its
    end."""

    component: str
    version: str
    gates: str
    since: str
    until: str = ""
    ended: str = ""
    program: str = ""  # that runs in its place, with the version that it reports; empty for our emulation


def component_runs(log: Iterable[Logged]) -> list[ComponentRun]:
    """Runs come in the order in which they began; a fork or rewind of the log ends them all."""
    found: list[ComponentRun] = []
    running: dict[str, ComponentRun] = {}
    for entry in log:
        if not isinstance(entry, ComponentChange) or entry.what.startswith(FAULT):
            continue
        if entry.what in BRANCHED:
            for run in running.values():
                run.until, run.ended = entry.time, entry.what
            running.clear()
            continue
        before = running.pop(entry.component, None)
        if before is not None:
            before.until, before.ended = entry.time, "" if entry.what == STARTED else entry.what
        if entry.what == STARTED:
            running[entry.component] = ComponentRun(
                *(entry.component, entry.version, entry.gates, entry.time), program=announced(entry.detail)
            )
            found.append(running[entry.component])
    return found


def drivers_of(changes: Iterable[ComponentChange]) -> set[str]:
    started = [change.component for change in changes if change.what == STARTED]
    return {component.partition("/")[2] for component in started if kind_of(component) == DRIVER}


def version_at(changes: Iterable[ComponentChange], component: str, time: str) -> str:
    """The time is RFC 3339; the version is empty if the component never started.

    A node's clock may be behind the log's: times before the first start are of the first version.
    """
    moment = parse_timestamp(time)
    starts = [each for each in changes if (each.component, each.what) == (component, STARTED)]
    before = [each for each in starts if parse_timestamp(each.time) <= moment]
    return next((each.version for each in (*before[-1:], *starts[:1])), "")


def with_version(log: Iterable[Logged], component: str) -> str:
    """Adds the version that a component last ran at, if the log has one."""
    versions = [run.version for run in component_runs(log) if run.component == component]
    return f"{component} {versions[-1]}" if versions else component


@dataclass(frozen=True, slots=True)
class FaultMoment:
    """A moment of a fault: `what` is set, fired, cleared or crashed; `detail` begins with the fault's id."""

    revision: int
    time: str
    component: str
    what: str
    detail: str


def fault_moments(log: Iterable[Logged]) -> list[FaultMoment]:
    return [
        FaultMoment(entry.revision, entry.time, entry.component, entry.what.removeprefix(FAULT), entry.detail)
        for entry in log
        if isinstance(entry, ComponentChange) and (entry.what.startswith(FAULT) or entry.what == CRASHED)
    ]


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
    return sorted({name for run in runs for name in parse_overrides(run.gates)})


def component_paths(runs: Iterable[ComponentRun], named: Iterable[str] = ()) -> list[ComponentPath]:
    """Paths come in the order of upgrades, without components that have no version.

    Gates are those that were set by hand in any of the runs, and of those that are `named` the ones that
    changed; a gate that was not set has its default.
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
    """Upgrades are true, downgrades false."""
    for before, after in pairwise(map(Version.parse, versions)):
        yield before < after


def _has(sides: Sides, wanted: Sides) -> bool:
    """Other sides may stand between the wanted ones."""
    rest = iter(sides)
    return all(side in rest for side in wanted)


def _without_repetitions(values: Iterable[T]) -> tuple[T, ...]:
    kept: list[T] = []
    for value in values:
        if not kept or kept[-1] != value:
            kept.append(value)
    return tuple(kept)

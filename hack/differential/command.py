"""The command line: runs histories side by side, shrinks what came out apart, and reports it by class."""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
from access_checks import access
from allocations import asked
from comparison import Difference, difference, shows_json
from component_runs import Both, ComponentRuns
from definitions import definition_history
from expression_runs import expressions
from histories import history
from limit_checks import limits
from managed_workloads import GATES as MANAGER_GATES
from managed_workloads import workloads
from managers import managers
from objects import Objects
from placements import GATES as SCHEDULER_GATES
from placements import placements as placements_history
from planted import Hunt
from releases import PATCHES, of_api_servers
from schedulers import schedulers
from servers import Pair, servers
from shrinking import shrunk

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.gates import FeatureGates, GateError
from kubeskew.apimachinery.versions import Version

_AT_ONCE = 4
_FLIPPED = 8  # gates
_KEPT = {"CoordinatedLeaderElection"}  # with it a server waits for an API that is off by default
_PROBLEMS = 500  # at a time
_MANAGED_AT_ONCE = 6
_DEVICES_BY_DEFAULT = 34  # the first minor with DynamicResourceAllocation on by default


MakeOf = Callable[[Objects, int], dict[str, Any]]
Make = Callable[[int], dict[str, Any]]
MIXES: Mapping[str, MakeOf] = {"objects": history, "definitions": definition_history}


@dataclass(slots=True)
class Found:
    """The histories of one class of difference; the first of them stands for all."""

    kind: str
    sequence: dict[str, Any]
    first: Difference
    seeds: list[int] = field(default_factory=list)


class Comparison:
    """Histories run by two servers, and what came out apart."""

    def __init__(self, pair: Pair, *, values: bool) -> None:
        self._pair = pair
        self._difference = partial(difference, values=values)
        self.found: dict[str, Found] = {}
        self.steps = 0
        self.accepted = 0

    async def run(self, objects: Objects, make: MakeOf, seeds: Iterable[int]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(seed: int) -> None:
            async with gate:
                await self._compare(make(objects, seed), seed)

        async with asyncio.TaskGroup() as group:
            for seed in seeds:
                group.create_task(one(seed))

    async def _compare(self, sequence: dict[str, Any], seed: int) -> None:
        self.steps += len(sequence["steps"])
        real, ours = await self._pair.runs(sequence)
        self.accepted += sum(answer is not None and answer.get("status", 0) < 300 for answer in real.answers)
        apart = self._difference(real, ours)
        # Histories run beside each other: what does not come out apart again was a race of theirs.
        if apart is None or self._difference(*await self._pair.runs(sequence)) is None:
            return
        kind = apart.kind(sequence)
        found = self.found.setdefault(kind, Found(kind, sequence, apart))
        found.seeds.append(seed)

    async def shrink(self, found: Found) -> None:
        """Makes the history of a class as small as can be."""

        async def holds(sequence: dict[str, Any]) -> bool:
            apart = self._difference(*await self._pair.runs(sequence))
            return (
                apart is not None
                and apart.step == len(sequence["steps"]) - 1
                and apart.kind(sequence) == found.kind
            )

        found.sequence = await shrunk(found.sequence, found.first.step, holds)
        apart = self._difference(*await self._pair.runs(found.sequence))
        found.first = apart or found.first


def flipped(version: Version, seed: int, among: Sequence[str] = ()) -> Mapping[str, bool]:
    """Returns gates at random that a server of a release takes; `among` those, if any are given."""
    chance, states = random.Random(seed), FeatureGates(version)
    free = [
        name
        for name in sorted(states.known())
        if not states.spec(name).locked and not name.startswith("All") and name not in _KEPT
        if not among or name in among
    ]
    while True:
        chosen = {name: not states.enabled(name) for name in chance.sample(free, min(len(free), _FLIPPED))}
        try:
            FeatureGates(version, chosen).validate()
        except GateError:
            continue
        return chosen


async def compare(
    binaries: Path, minor: str, mix: str, seeds: Sequence[int], gates: Mapping[str, bool], *, shrink: bool
) -> Comparison:
    version = Version.parse(minor)
    objects = Objects(Catalogue(version, FeatureGates(version, gates)))
    async with servers(binaries, minor, PATCHES[minor], gates) as pair:
        comparison, began = Comparison(pair, values=shows_json(version.minor)), time.monotonic()
        for start in range(0, len(seeds), 100):
            part = seeds[start : start + 100]
            await comparison.run(objects, MIXES[mix], part)
            click.echo(
                f"{start + len(part)} of {len(seeds)} histories, {comparison.steps} steps "
                f"({comparison.accepted} accepted), {len(comparison.found)} classes apart, "
                f"{time.monotonic() - began:.0f} s",
                err=True,
            )
        if shrink:
            for number, found in enumerate(comparison.found.values(), 1):
                click.echo(f"shrinking {number} of {len(comparison.found)}: {found.kind}", err=True)
                await comparison.shrink(found)
        return comparison


@click.group()
def main() -> None:
    """Hold random requests and problems against programs of upstream."""


main.add_command(access)
main.add_command(expressions)
main.add_command(limits)


@main.command()
@of_api_servers
@click.option("--mix", type=click.Choice([*MIXES]), default="objects", show_default=True, help="Of what.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=200, show_default=True, help="How many histories.")
@click.option("--seed", "chosen", type=int, multiple=True, help="One history; may be repeated.")
@click.option("--flip", type=int, help="The seed of gates at random; without it they have their defaults.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make what came out apart small.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A file that gets the shrunk histories, as JSON."
)
def histories(
    minor: str,
    binaries: Path,
    mix: str,
    first: int,
    count: int,
    chosen: tuple[int, ...],
    flip: int | None,
    shrink: bool,
    out: Path | None,
) -> None:
    """Have a real kube-apiserver and ours answer random histories.

    \b
      ETCD=/usr/bin/etcd hack/differential/run histories 1.36 --binaries DIR --count 2000
      hack/differential/run histories 1.36 --binaries DIR --seed 17 --seed 23
    """
    gates = flipped(Version.parse(minor), flip) if flip is not None else {}
    if gates:
        click.echo(f"gates: {','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}", err=True)
    seeds = chosen or range(first, first + count)
    comparison = asyncio.run(compare(binaries, minor, mix, seeds, gates, shrink=shrink))
    classes = sorted(comparison.found.values(), key=lambda each: -len(each.seeds))
    for each in classes:
        click.echo(f"\n{len(each.seeds)} ({each.seeds[0]}): {each.kind}")
        for text in each.first.found[:3]:
            click.echo(f"    {text[:400]}")
    apart = sum(len(each.seeds) for each in classes)
    click.echo(f"\n{len(seeds)} histories, {comparison.steps} steps, {apart} apart, {len(classes)} classes")
    if out is not None:
        rows = [
            {"kind": e.kind, "seeds": e.seeds, "found": list(e.first.found), "sequence": e.sequence}
            for e in classes
        ]
        out.write_text(json.dumps(rows, indent=1))
    sys.exit(1 if classes else 0)


def _component_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--out", type=click.Path(path_type=Path), help="A file that gets the histories, as JSON."
        ),
        click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make them small."),
        click.option("--flip", type=int, help="The seed of gates at random."),
        click.option("--seed", "chosen", type=int, multiple=True, help="One history; may be repeated."),
        click.option("--count", default=100, show_default=True, help="How many histories."),
        click.option("--first", default=0, show_default=True, help="The first seed."),
        click.option(
            "--binaries",
            type=click.Path(exists=True, path_type=Path),
            required=True,
            help="DIR/MINOR/PROGRAM.",
        ),
        click.argument("minor"),
    ):
        command = option(command)
    return command


@main.command()
@_component_options
def placements(minor: str, binaries: Path, flip: int | None, **given: Any) -> None:
    """Have a real kube-scheduler and ours place the pods of random histories.

    \b
      hack/differential/run placements 1.36 --binaries DIR --count 200
    """
    version = Version.parse(PATCHES[minor])
    gates = dict(flipped(version, flip, SCHEDULER_GATES)) if flip is not None else {}
    if version.minor < _DEVICES_BY_DEFAULT:
        gates["DynamicResourceAllocation"] = True
    states = FeatureGates(version, gates)
    known = {name: states.enabled(name) for name in SCHEDULER_GATES if name in states.known()}
    both = schedulers(binaries, minor, PATCHES[minor], gates)
    _report_components(both, lambda seed: placements_history(seed, version.minor, known), gates, **given)


@main.command()
@_component_options
def controllers(minor: str, binaries: Path, flip: int | None, **given: Any) -> None:
    """Have a real kube-controller-manager and ours look after random workloads.

    \b
      hack/differential/run controllers 1.36 --binaries DIR --count 200
    """
    version = Version.parse(PATCHES[minor])
    gates = dict(flipped(version, flip, MANAGER_GATES)) if flip is not None else {}
    if version.minor < _DEVICES_BY_DEFAULT:
        gates["DynamicResourceAllocation"] = True
    states = FeatureGates(version, gates)
    known = {name: states.enabled(name) for name in MANAGER_GATES if name in states.known()}
    both = managers(binaries, minor, PATCHES[minor], gates)
    make = partial(workloads, minor=version.minor, gates=known)
    _report_components(both, make, gates, **given, at_once=_MANAGED_AT_ONCE)


def _report_components(
    both: AbstractAsyncContextManager[Both],
    make: Make,
    gates: Mapping[str, bool],
    first: int,
    count: int,
    chosen: tuple[int, ...],
    shrink: bool,
    out: Path | None,
    at_once: int = 1,
) -> None:
    if gates:
        click.echo(f"gates: {','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}", err=True)

    async def compared() -> ComponentRuns:
        async with both as each:
            runs = ComponentRuns(each, make, at_once)
            await runs.run(chosen or range(first, first + count))
            for found in runs.found.values() if shrink else ():
                await runs.shrink(found)
            return runs

    runs = asyncio.run(compared())
    for each in sorted(runs.found.values(), key=lambda each: -len(each.seeds)):
        click.echo(f"\n{len(each.seeds)} ({', '.join(map(str, each.seeds[:10]))}): {each.kind}")
        for text in each.apart[1][:3]:
            click.echo(f"    {text[:800]}")
    apart = sum(len(each.seeds) for each in runs.found.values())
    click.echo(f"{runs.done} histories, {runs.steps} steps, {apart} apart, {len(runs.found)} classes")
    if out is not None:
        kept = [
            {"kind": each.kind, "seeds": each.seeds, "apart": each.apart, **each.sequence}
            for each in runs.found.values()
        ]
        out.write_text(json.dumps(kept, indent=1))
    sys.exit(1 if apart else 0)


@main.command()
@click.argument("minor")
@click.option(
    "--program", type=click.Path(exists=True), required=True, help="What answers problems, a line each."
)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=1000, show_default=True, help="How many problems.")
def allocations(minor: str, program: str, first: int, count: int) -> None:
    """Have upstream's allocator and ours answer random problems.

    PROGRAM reads problems as lines of `kubeskew allocate --jsonl`, and writes {"allocations": ...} or
    {"allocations": null, "error": ...} for each. What it answers in another way now and then is asked for
    again: our answer has to be one of its answers.

    \b
      hack/differential/run allocations 1.36 --program ./allocator --count 50000
    """
    counts, apart = Counter[str](), 0
    for start in range(first, first + count, _PROBLEMS):
        seeds = range(start, min(start + _PROBLEMS, first + count))
        for answered in asked(program, seeds, PATCHES[minor]):
            counts[answered.kind] += 1
            if not answered.alike:
                apart += 1
                click.echo(
                    f"{answered.seed}: {json.dumps(answered.theirs)}\n    ours: {json.dumps(answered.ours)}"
                )
        click.echo(f"{seeds[-1] + 1 - first} of {count} problems, {apart} apart", err=True)
    click.echo(", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) + f"; {apart} apart")
    sys.exit(1 if apart else 0)


@main.command()
@click.argument("minor")
@click.option("--binaries", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--draw", default=0, show_default=True, help="The seed of the errors.")
@click.option("--count", default=10, show_default=True, help="How many errors.")
@click.option("--histories", "most", default=200, show_default=True, help="How many histories for each.")
def planted(minor: str, binaries: Path, draw: int, count: int, most: int) -> None:
    """Draw errors for our API server, and report the histories that find them.

    \b
      ETCD=/usr/bin/etcd hack/differential/run planted 1.36 --binaries DIR --draw 1
    """
    found = asyncio.run(Hunt(binaries, minor, PATCHES[minor], most).run(draw, count))
    click.echo(f"{sum(bool(by) for _, by in found)} of {len(found)} found")
    sys.exit(0 if all(by for _, by in found) else 1)

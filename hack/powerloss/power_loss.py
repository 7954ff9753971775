"""The command: histories, crashes, and what they come to."""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from cluster_histories import record_creation, record_fork, record_repair, record_rewind
from disk_recorder import Recorder
from log_histories import go_on, record_commits, record_migration, repeatable
from node_histories import record_checkpoints
from recorded_disk import Chance, Platter, write_out
from stories import Story, judge

Check = Callable[[Path, int], Awaitable[list[str]]]
Record = Callable[[Random, Path, int], Awaitable[tuple[Recorder, Check]]]
TWICE = 0.1  # so many crashes are followed by another one, while the log is opened or soon after
STEPS = 40


@dataclass(frozen=True)
class Finding:
    kind: str
    seed: int
    crash: int
    cut: int
    chance: str
    wrong: list[str]


@dataclass
class Result:
    crashes: Counter[str] = field(default_factory=Counter)
    histories: Counter[str] = field(default_factory=Counter)
    operations: int = 0
    findings: list[Finding] = field(default_factory=list)


def _of_log(record: Callable[[Random, Path, int], Awaitable[tuple[Recorder, Story]]]) -> Record:
    async def recorded(random: Random, directory: Path, steps: int) -> tuple[Recorder, Check]:
        recorder, story = await record(random, directory, steps)

        async def check(crashed: Path, cut: int) -> list[str]:
            if random.random() >= TWICE:
                return await judge(crashed, story, cut)
            found = await judge_copy(crashed, story, cut)
            if found:
                return found
            again, further = await go_on(random, crashed, story)
            platter, second = Platter(again.history), random.randint(again.start, again.position)
            platter.advance(second)
            with tempfile.TemporaryDirectory(dir=crashed.parent) as place:
                write_out(platter.crash(random, Chance.drawn(random)), Path(place))
                return [f"after a second crash: {text}" for text in await judge(Path(place), further, second)]

        return recorder, check

    return recorded


async def judge_copy(crashed: Path, story: Story, cut: int) -> list[str]:
    with tempfile.TemporaryDirectory(dir=crashed.parent) as place:
        shutil.copytree(crashed, place, dirs_exist_ok=True)
        return await judge(Path(place), story, cut)


KINDS: Mapping[str, Record] = {
    "commits": _of_log(record_commits),
    "migration": _of_log(record_migration),
    "rewind": record_rewind,
    "fork": record_fork,
    "repair": record_repair,
    "creation": record_creation,
    "node": record_checkpoints,
}


def scratch() -> str | None:
    """Memory, where the machine has some for files: what is written there needs no disk of its own."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def run(
    kind: str,
    seed: int,
    crashes: int,
    result: Result,
    *,
    first: bool = False,
    only: int | None = None,
    record: Record | None = None,
) -> None:
    """Records the history of a seed and crashes it so many times; with `first` up to the first finding.

    `only` is the one crash to look at.
    """
    asyncio.run(_run(record or KINDS[kind], kind, seed, crashes, result, first=first, only=only))


async def _run(
    record: Record, kind: str, seed: int, crashes: int, result: Result, *, first: bool, only: int | None
) -> None:
    random = Random(f"{kind} {seed}")
    with tempfile.TemporaryDirectory(dir=scratch(), prefix="power-loss-") as place:
        root = Path(place).resolve() / "disk"
        root.mkdir()
        with repeatable(seed, random.choice((8, 30, 200))):
            recorder, check = await record(random, root, STEPS)
            same_as_disk(recorder)
            result.histories[kind] += 1
            result.operations += recorder.position
            platter = Platter(recorder.history)
            cuts = sorted(random.randint(recorder.start, recorder.position) for _ in range(crashes))
            for number, cut in enumerate(cuts):
                platter.advance(cut)
                own = Random(f"{kind} {seed} {number}")
                random.seed(f"{kind} {seed} {number} checks")
                chance = Chance.drawn(own)
                if only not in (None, number):
                    continue
                crashed = Path(place) / f"crash-{number}"
                crashed.mkdir()
                write_out(platter.crash(own, chance), crashed)
                wrong = await check(crashed, cut)
                if only is None:
                    shutil.rmtree(crashed)
                else:
                    kept = Path(tempfile.mkdtemp(prefix="power-loss-kept-"))
                    shutil.copytree(crashed, kept, dirs_exist_ok=True)
                    print(f"what the checks left is in {kept}", file=sys.stderr)
                result.crashes[kind] += 1
                if wrong:
                    result.findings.append(Finding(kind, seed, number, cut, repr(chance), wrong))
                    if first:
                        return


def same_as_disk(recorder: Recorder) -> None:
    """A history that does not come to what is on the disk would prove nothing. Raises AssertionError."""
    crashed = Platter(recorder.history)
    crashed.advance(recorder.position)
    everything = Chance(512, ["all"], 1.0, "all", extended=False, garbage=False)
    found = crashed.crash(Random(0), everything)
    there = {
        path.relative_to(recorder.root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(recorder.root.rglob("*"))
        if not path.name.endswith("-shm")
    }
    assert found.keys() == there.keys(), (sorted(found), sorted(there))
    assert found == there, [name for name in found if found[name] != there[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crashes", type=int, default=10_000, help="in all")
    parser.add_argument("--each", type=int, default=100, help="crashes of a history")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first history")
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="may be given again; all without")
    parser.add_argument("--only", type=int, metavar="CRASH", help="of the first seed alone, kept to look at")
    parser.add_argument("-o", dest="output", choices=["json"], help="the result as one document")
    arguments = parser.parse_args()
    kinds = arguments.kind or [*KINDS]
    result, start, seed = Result(), time.monotonic(), arguments.first
    while result.crashes.total() < arguments.crashes:
        kind = kinds[seed % len(kinds)]
        run(kind, seed, arguments.each, result, only=arguments.only)
        seed += 1
        seconds = time.monotonic() - start
        print(
            f"\r{result.crashes.total()} crashes of {seed - arguments.first} histories, "
            f"{len(result.findings)} findings, {seconds:.0f} s ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        if arguments.only is not None:
            break
    print(file=sys.stderr)
    report(result, arguments.first, seed, time.monotonic() - start, arguments.output)
    sys.exit(1 if result.findings else 0)


def report(result: Result, first: int, end: int, seconds: float, output: str | None) -> None:
    if output == "json":
        document: dict[str, Any] = {
            "seeds": [first, end - 1],
            "seconds": round(seconds, 1),
            "histories": dict(result.histories),
            "operations": result.operations,
            "crashes": dict(result.crashes),
            "findings": [asdict(finding) for finding in result.findings],
        }
        print(json.dumps(document, indent=1))
        return
    for kind, crashes in result.crashes.items():
        found = sum(finding.kind == kind for finding in result.findings)
        print(f"{kind:<12}{result.histories[kind]:>6} histories{crashes:>8} crashes{found:>6} findings")
    for finding in result.findings[:20]:
        print(f"{finding.kind} --first {finding.seed} --only {finding.crash}: {'; '.join(finding.wrong)}")

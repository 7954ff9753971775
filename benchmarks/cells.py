"""The rows of a cell of the matrix on real processes: its time and CPU, and the stages on which they went."""

import asyncio
import json
import re
import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.row import Row

CELL = "kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35"
RUNS = 5
_START, _STEPS, _END = "start of the cluster", "steps between", "end"
_MOVE = re.compile(r"(apiserver|controller-manager|scheduler|kubelet)\b.*: (1\.\d+) → (1\.\d+)")


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the cell, CPU seconds of all its processes, and seconds by stage."""

    seconds: float
    cpu: float
    stages: Mapping[str, float]


async def rows() -> list[Row]:
    """Runs the cell RUNS times, alone and warm: the median of seconds and CPU, then of every stage."""
    await _run()  # bytecode, and the files in the kernel's cache
    runs = [await _run() for _ in range(RUNS)]
    seconds, cpu = _summary([run.seconds for run in runs]), _summary([run.cpu for run in runs])
    total = Row(
        "one upgrade → downgrade cell, real processes",
        "674 s",
        "≤ 4 s, ≤ 6 s of CPU",
        f"{seconds}; CPU, command and all: {cpu}",
        f"{CELL}, {RUNS} runs",
    )
    stages = dict.fromkeys(stage for run in runs for stage in run.stages)
    return [
        total,
        *(
            Row(f"… {stage}", "—", "—", _summary([run.stages.get(stage, 0.0) for run in runs]))
            for stage in stages
        ),
    ]


def _summary(values: Sequence[float]) -> str:
    """Median, with the least and the most."""
    return f"{statistics.median(values):.2f} s ({min(values):.2f}-{max(values):.2f})"


async def _run() -> Measured:
    before = _children_cpu()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubeskew", "matrix", "--jobs", "1", "--only", CELL, "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, moments = await asyncio.gather(_all(process.stdout), _moments(process.stderr))
    if await process.wait():
        raise RuntimeError(f"{CELL} failed:\n{output.decode()}")
    (cell,) = json.loads(output)["cells"]
    return Measured(cell["seconds"], _children_cpu() - before, _stages(cell, moments))


async def _all(stream: asyncio.StreamReader | None) -> bytes:
    return await stream.read() if stream is not None else b""


async def _moments(stream: asyncio.StreamReader | None) -> list[tuple[float, str]]:
    """Pairs the times and texts of the command's progress."""
    found: list[tuple[float, str]] = []
    while stream is not None and (line := await stream.readline()):
        found.append((time.perf_counter(), line.decode().strip().partition(f"{CELL}: ")[2]))
    return found


def _stages(cell: Mapping[str, Any], moments: Sequence[tuple[float, str]]) -> dict[str, float]:
    """A report of progress begins a stage, which lasts until the next report; seconds by stage."""
    steps = {step["name"]: step["seconds"] for step in cell["steps"]}
    began = {text: moment for moment, text in moments if text in steps}
    stages = {_START: min(began.values()) - moments[0][0], _STEPS: 0.0}
    for (moment, text), (following, _) in pairwise(moments):
        if move := _MOVE.match(text):
            stage = f"{'upgrade' if move[2] < move[3] else 'downgrade'}: {move[1]}"
            stages[stage] = stages.get(stage, 0.0) + following - moment
    moving = sum(seconds for stage, seconds in stages.items() if stage != _START)
    stages[_STEPS] = sum(steps.values()) - moving
    last = max(began, key=lambda text: began[text])
    return {**stages, _END: moments[-1][0] - began[last] - steps[last]}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

"""The rows of simulations: a warm cell and the parts of its CPU, whole matrices, an exploration.

python -m benchmarks.simulated     only the cell, by component
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator

from benchmarks.row import Row
from kubeskew.conformance import matrix
from kubeskew.simulation.runs import simulate

CELL = "kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35"
RUNS = 10
JOBS = 2
_MATRICES = {"quick": "≤ 30 s", "full": "≤ 5 min"}


def measure() -> dict[str, float]:
    """Median of the CPU seconds of warm runs, and the seconds of each component."""
    (cell,) = matrix.of_scenarios(("kep-5004/upgrade-downgrade",)).cells((CELL,))
    seconds: list[float] = []
    for _ in range(RUNS + 1):
        began = time.process_time()
        simulate(cell, 0, _nobody)
        seconds.append(time.process_time() - began)
    parts: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for name, taken in simulate(cell, 0, _nobody, measures=True).seconds.items():
            parts.setdefault(name, []).append(taken)
    medians = {name: statistics.median(taken) for name, taken in parts.items()}
    whole = statistics.median(seconds[1:])
    return {"all": whole, **medians, "runner, start, end, garbage": whole - sum(medians.values())}


async def rows(seeds: int) -> AsyncIterator[Row]:
    """Measures the cell in a process of its own, then the matrices, then an exploration of `seeds` runs."""
    found: dict[str, float] = json.loads((await _run("-m", "benchmarks.simulated"))[0])
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in found.items() if name != "all")
    goal = "≤ 0.5 s of CPU"
    yield Row("the same cell, simulated, warm", "—", goal, f"{found['all']:.2f} s of CPU: {parts}", CELL)
    for profile, goal in _MATRICES.items():
        arguments = ("matrix", "--profile", profile, "--simulate", "--jobs", str(JOBS), "-o", "json")
        text, seconds = await _run("-m", "kubeskew", *arguments)
        cells = len(json.loads(text)["cells"])
        yield Row(
            f"matrix {profile}, simulated", "—", goal, f"{seconds:.0f} s", f"{cells} cells, {JOBS} jobs"
        )
    arguments = ("explore", CELL, "--seeds", str(seeds), "--jobs", str(JOBS), "--no-minimize", "-o", "json")
    text, _ = await _run("-m", "kubeskew", *arguments)
    report = json.loads(text)
    a_thousand = report["seconds"] * 1000 / report["runs"]
    yield Row(
        *("explore, 1,000 seeds", "—", "≤ 8 min", f"{a_thousand / 60:.1f} min"),
        f"{CELL}, from {report['runs']} runs, {JOBS} jobs",
    )


async def _run(*arguments: str) -> tuple[str, float]:
    """Output of a command, and the seconds that it took. Some end with 1: cells or findings."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode not in (0, 1) or not output:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{errors.decode()}")
    return output.decode(), time.perf_counter() - began


def _nobody(_text: str) -> None:
    """Progress is not reported."""


def main() -> None:
    """Prints the seconds of the cell as JSON."""
    print(json.dumps({name: round(seconds, 3) for name, seconds in measure().items()}))


if __name__ == "__main__":
    main()

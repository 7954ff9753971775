"""The row of a whole cluster, started through the command line."""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.row import Row

RUNS = 5


async def _kubeskew(*arguments: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubeskew", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"kubeskew {' '.join(arguments)}: {process.returncode}\n{errors.decode()}")
    return output


async def up(nodes: int = 3) -> Row:
    """From the command to its end: it waits until every node is Ready. The median of RUNS."""
    seconds = [await _up(nodes) for _ in range(RUNS)]
    return Row(
        f"`kubeskew up`, {nodes} nodes, until every node is Ready",
        "kwok 5 s, kind 12 s+",
        "≤ 1.2 s",
        f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}-{max(seconds):.2f})",
        f"{RUNS} runs",
    )


async def _up(nodes: int) -> float:
    with tempfile.TemporaryDirectory(prefix="kubeskew-bench-") as name:
        state = ("--state-dir", str(Path(name) / "state"))
        started = time.perf_counter()
        try:
            await _kubeskew(*state, "up", "--nodes", str(nodes))
            return time.perf_counter() - started
        finally:
            await _kubeskew(*state, "down", "--purge")

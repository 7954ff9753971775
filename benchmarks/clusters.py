"""The rows of whole clusters, through the command line: starting one, and a cell of the matrix."""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.row import Row


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
    """From the command to its end: it waits until every node is Ready."""
    with tempfile.TemporaryDirectory(prefix="kubeskew-bench-") as name:
        state = ("--state-dir", str(Path(name) / "state"))
        started = time.perf_counter()
        try:
            await _kubeskew(*state, "up", "--nodes", str(nodes))
            seconds = time.perf_counter() - started
        finally:
            await _kubeskew(*state, "down", "--purge")
    return Row(
        f"`kubeskew up`, {nodes} nodes, until every node is Ready",
        "kwok 5 s, kind 12 s+",
        "≤ 2.5 s",
        f"{seconds:.1f} s",
    )


async def cell() -> Row:
    """The cells of the quick matrix, one after the other; the slowest counts."""
    report = json.loads(await _kubeskew("matrix", "--jobs", "1", "-o", "json"))
    slowest = max(report["cells"], key=lambda each: each["seconds"])
    return Row(
        "one upgrade → downgrade cell, real processes",
        "674 s",
        "≤ 10 s",
        f"{slowest['seconds']:.1f} s ({slowest['name']}, the slowest of {len(report['cells'])})",
    )

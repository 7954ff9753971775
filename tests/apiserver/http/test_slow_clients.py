"""Clients that ask for much and read nothing: memory stays bounded, and others are served as before."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from server_in_process import MAPS, config_map
from test_durability import session, started, trusting, url_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

HEAD = "Host: x\r\nAuthorization: Bearer secret\r\n\r\n"
IDLE = 40  # clients that read nothing
MEGABYTES_MAX = 320  # that they may cost together, TLS included: each list alone is 40 MB


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def idle_client(directory: Path, port: int, target: str) -> asyncio.StreamWriter:
    """One that sends a request and never reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024, ssl=trusting(directory))
    reader._transport.pause_reading()  # what asyncio would read ahead is the kernel's to hold
    writer.write(f"GET {target} HTTP/1.1\r\n{HEAD}".encode())
    return writer


async def fill(http, count: int, size: int) -> None:
    for start in range(0, count, 20):
        made = (
            http.post(MAPS, json=config_map(f"m-{number}", data={"k": "x" * size}))
            for number in range(start, min(start + 20, count))
        )
        for answer in await asyncio.gather(*made):
            assert answer.status == 201
            answer.release()


async def test_watchers_that_read_nothing(tmp_path):
    """A flood of events ends them, or waits in bounded memory; a watcher that reads sees every event."""
    process, port = await started(tmp_path, url_in(tmp_path))
    try:
        idle = [await idle_client(tmp_path, port, f"{MAPS}?watch=1") for _ in range(IDLE)]
        async with session(tmp_path, port) as http, http.get(f"{MAPS}?watch=1") as watched:
            before = memory_mb(process.pid)

            async def read() -> set[str]:
                names = set()
                while len(names) < 2_000:
                    event = json.loads(await watched.content.readuntil(b"\n"))
                    names.add(event["object"]["metadata"]["name"])
                return {name for name in names if name.startswith("m-")}

            reading = asyncio.create_task(read())
            await fill(http, 2_000, 20_000)
            assert len(await reading) >= 1_990
            grown = memory_mb(process.pid) - before
            assert grown < MEGABYTES_MAX
        for writer in idle:
            writer.transport.abort()
    finally:
        process.kill()
        await process.wait()


async def test_readers_of_large_lists_that_read_nothing(tmp_path):
    """Each holds no more than a piece of its list, regardless of its length; small requests stay quick."""
    process, port = await started(tmp_path, url_in(tmp_path))
    try:
        async with session(tmp_path, port) as http:
            await fill(http, 2_000, 20_000)
            before = memory_mb(process.pid)
            idle = [await idle_client(tmp_path, port, MAPS) for _ in range(IDLE)]
            longest = 0.0
            for _ in range(100):
                begun = time.perf_counter()
                async with http.get(f"{MAPS}/m-1") as answer:
                    assert answer.status == 200
                longest = max(longest, time.perf_counter() - begun)
            assert memory_mb(process.pid) - before < MEGABYTES_MAX
            assert longest < 10
        for writer in idle:
            writer.transport.abort()
    finally:
        process.kill()
        await process.wait()

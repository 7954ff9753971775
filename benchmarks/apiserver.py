"""Measures the API server: the numbers of docs/performance.md."""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.connection import Connection
from benchmarks.processes import memory_mb
from benchmarks.row import Row
from benchmarks.server import Connects, Server

CONNECTIONS = 16
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "load"}},
    "spec": {
        "schedulerName": "none",
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "c",
                "image": "registry.example.com/app:1.0",
                "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(6)],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }
        ],
    },
}


async def rate(
    server: Connects, count: int, one: Callable[[Connection, int], Awaitable[None]]
) -> tuple[float, float]:
    """Requests per second over all connections, and the 99th percentile in ms."""
    numbers = iter(range(count))
    latencies: list[float] = []

    async def work() -> None:
        async with server.connection() as connection:
            for number in numbers:
                started = time.perf_counter()
                await one(connection, number)
                latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    elapsed = time.perf_counter() - started
    latencies.sort()
    return count / elapsed, latencies[int(len(latencies) * 0.99)] * 1000


async def creates_small(server: Server) -> Row:
    async def one(connection: Connection, number: int) -> None:
        body = json.dumps({"metadata": {"name": f"c-{number}"}, "data": {"key": "value"}}).encode()
        status, answer = await connection.request("POST", CONFIG_MAPS, body)
        assert status == 201, answer

    per_second, p99 = await rate(server, 6000, one)
    return Row(
        "durable creates of a small object, 16 connections",
        "1,680/s, p99 92 ms",
        "≥ 3,000/s, p99 ≤ 20 ms",
        f"{per_second:,.0f}/s, p99 {p99:.1f} ms",
    )


async def gets(server: Server) -> Row:
    async def one(connection: Connection, _number: int) -> None:
        status, _ = await connection.request("GET", f"{CONFIG_MAPS}/c-1")
        assert status == 200

    per_second, _ = await rate(server, 20_000, one)
    return Row("GET one object, 16 connections", "7,083/s", "≥ 10,000/s", f"{per_second:,.0f}/s")


async def creates_pods(server: Server) -> Row:
    async def one(connection: Connection, number: int) -> None:
        pod = {
            **POD,
            "metadata": {"name": f"p-{number}", "labels": {"app": "load", "part": str(number % 100)}},
        }
        status, answer = await connection.request("POST", PODS, json.dumps(pod).encode())
        assert status == 201, answer

    per_second, _ = await rate(server, 10_000, one)
    return Row("creates of pods", "1,129/s", "≥ 1,800/s", f"{per_second:,.0f}/s")


async def _medians_ms(server: Server, paths: Sequence[str], times: int = 7) -> tuple[list[float], int]:
    """Median for each path, asked for in turns, and the size of the last answer in bytes.

    The first two rounds do not count: client and server still get their memory for answers of that size.
    """
    taken: list[list[float]] = [[] for _ in paths]
    async with server.connection() as connection:
        for _ in range(2 + times):
            for path, found in zip(paths, taken, strict=True):
                started = time.perf_counter()
                status, body = await connection.request("GET", path)
                found.append(time.perf_counter() - started)
                assert status == 200
    return [statistics.median(found[2:]) * 1000 for found in taken], len(body)


async def lists(server: Server) -> Row:
    (consistent, cached), size = await _medians_ms(server, [PODS, f"{PODS}?resourceVersion=0"])
    return Row(
        f"LIST 10,000 pods ({size / 1e6:.0f} MB): consistent / from cache",
        "407 / 167 ms",
        "≤ 60 ms",
        f"{consistent:.0f} / {cached:.0f} ms",
    )


async def list_by_label(server: Server) -> Row:
    (taken,), _ = await _medians_ms(server, [f"{PODS}?labelSelector=part%3D7"])
    return Row("LIST by label, 1 % of 10,000", "140 ms", "≤ 20 ms", f"{taken:.0f} ms")


async def watchers(server: Server, count: int = 200, events: int = 60) -> Row:
    """20 writes a second, seen by every watcher; the time from the write's begin to the watcher's line."""
    written: dict[str, float] = {}
    seen: list[float] = []

    async def watch(ready: asyncio.Semaphore) -> None:
        async with server.connection() as connection:
            await connection.watch("/api/v1/namespaces/kube-public/configmaps?watch=true")
            ready.release()
            for _ in range(events):
                line = await connection.next_line()
                name = json.loads(line)["object"]["metadata"]["name"]
                seen.append(time.perf_counter() - written[name])

    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(watch(ready)) for _ in range(count)]
    for _ in range(count):
        await ready.acquire()
    async with server.connection() as connection:
        for number in range(events):
            name = f"w-{number}"
            written[name] = time.perf_counter()
            body = json.dumps({"metadata": {"name": name}}).encode()
            await connection.request("POST", "/api/v1/namespaces/kube-public/configmaps", body)
            await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)
    seen.sort()
    p50, p99 = seen[len(seen) // 2] * 1000, seen[int(len(seen) * 0.99)] * 1000
    return Row(
        "200 watchers, 20 events/s, write → seen",
        "p50 12, p99 34 ms",
        "p99 ≤ 30 ms",
        f"p50 {p50:.0f}, p99 {p99:.0f} ms",
    )


async def all_rows(server: Server) -> list[Row]:
    """Rows stand in the design's order; the loads build on each other."""
    start = Row("API server: start → /readyz ok", "3.4 s", "≤ 0.6 s", f"{server.start_seconds:.2f} s")
    small = await creates_small(server)
    rows = [
        start,
        await gets(server),
        small,
        await creates_pods(server),
        await lists(server),
        await list_by_label(server),
        await watchers(server),
    ]
    memory = f"{memory_mb(server.pid):.0f} MB"
    rows.append(Row("memory after 10,000 pods and the loads above", "1,110 + 177 MB", "≤ 400 MB", memory))
    return rows

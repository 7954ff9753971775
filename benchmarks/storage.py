"""The event store alone: `python -m benchmarks.storage`. Durable writes, consistent reads, lists, watches."""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore

AUTHOR = Author("system:admin", "kubectl", "1.36", "1.36", "0b7c2c0e-6d7f-4f5f-9c43-1f7c4e1f9a55")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
UID = "7d1ecf1c-9a3c-4f6e-8a3e-2f1f0e9a7b11"


def creation(name: str, size: int) -> Change:
    return Change(Verb.CREATE, Key("configmaps", "default", name), UID, os.urandom(size), 0, AUTHOR, WHEN)


async def open_store(url: str) -> CachedStore:
    clock = SystemClock()
    return await CachedStore.open(await SQLLog.open(url, clock), clock)


def url_in(directory: Path) -> str:
    return f"sqlite+aiosqlite:///{directory}/events.db"


async def write(store: CachedStore, writers: int, seconds: float, size: int, watchers: int) -> str:
    """Durable creates by `writers` at once for `seconds`, seen by `watchers`."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    watches = [store.watch("configmaps", None, None, store.revision) for _ in range(watchers)]
    reading = [asyncio.ensure_future(drain(watch)) for watch in watches]

    async def writer(number: int) -> None:
        count = 0
        while (start := time.perf_counter()) < end:
            await store.write(creation(f"{writers}-{watchers}-{number}-{count}", size))
            latencies.append(time.perf_counter() - start)
            count += 1

    cpu, start = time.process_time(), time.perf_counter()
    await asyncio.gather(*(writer(number) for number in range(writers)))
    took, burnt = time.perf_counter() - start, time.process_time() - cpu
    for watch in watches:
        watch.close()
    await asyncio.gather(*reading)
    return f"{len(latencies) / took:7.0f}/s  {quantiles(latencies)}  CPU {burnt / took:.2f}"


async def drain(watch: object) -> None:
    async for _ in watch:  # type: ignore[attr-defined]
        pass


def quantiles(latencies: list[float]) -> str:
    cuts = statistics.quantiles(latencies, n=100)
    return (
        f"p50 {cuts[49] * 1000:5.2f} ms  p99 {cuts[98] * 1000:5.2f} ms  max {max(latencies) * 1000:5.1f} ms"
    )


async def timed(work: Callable[[], Awaitable[object]], times: int) -> str:
    """Microseconds per call of `work`."""
    start = time.perf_counter()
    for _ in range(times):
        await work()
    return f"{(time.perf_counter() - start) / times * 1e6:9.1f} µs"


async def reads(store: CachedStore) -> list[tuple[str, str]]:
    key = Key("configmaps", "default", "16-0-0-0")

    async def get() -> None:
        await store.refresh()
        assert store.get(key)

    async def everything() -> None:
        store.list("configmaps")

    async def page() -> None:
        store.list("configmaps", "default", key, 500)

    total = len(store.list("configmaps").entries)
    past = store.revision - 5000
    store_start = store.window.start
    return [
        ("consistent get", await timed(get, 5000)),
        (f"list of {total}", await timed(everything, 20)),
        ("page of 500", await timed(page, 200)),
        ("list 5,000 revisions ago, memory", await timed(lambda: store.list_at(past, "configmaps"), 5)),
        ("list further back, log", await timed(lambda: store.list_at(store_start - 1, "configmaps"), 3)),
    ]


async def main(seconds: float, size: int, url: str) -> None:
    store = await open_store(url)
    for writers, watchers in ((1, 0), (16, 0), (64, 0), (16, 200)):
        name = f"creates of {size} B, {writers} writers" + (f", {watchers} watchers" if watchers else "")
        print(f"{name:45} {await write(store, writers, seconds, size, watchers)}", flush=True)
    for name, took in await reads(store):
        print(f"{name:45} {took}")
    await store.close()
    start = time.perf_counter()
    store = await open_store(url)
    print(f"{'open with that many objects':45} {(time.perf_counter() - start) * 1000:9.1f} ms")
    await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=400, help="bytes of an object")
    parser.add_argument("--dir", type=Path, help="where to put the database; default: a temporary directory")
    parser.add_argument("--url", help="of an empty database, instead of a file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as place:
        uvloop.run(main(options.seconds, options.size, options.url or url_in(Path(place))))

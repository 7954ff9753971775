"""A real kube-apiserver above etcd and above `kubeskew etcd`, in turns on one machine.

Both are up all the time, and each load runs above one and then above the other, so that what else the machine
does falls upon both. A row shows the median of all turns, and the median of the pairs' ratios.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import NamedTuple

from benchmarks.apiserver import CONFIG_MAPS, POD, PODS, rate
from benchmarks.connection import Connection
from benchmarks.processes import cpu_seconds, memory_mb
from benchmarks.real_servers import STORES, RealServer, real_server
from benchmarks.row import Row

_SETTLING_SECONDS = 5.0  # in which a server that is ready makes its roles, priority levels and leases
_CREATES = 2000
_UPDATES = 1000
_LONE = 300
_LISTS = 7
_WATCHERS = 50
_EVENTS = 60
_EVENT_SECONDS = 0.02
_WATCHED = "/api/v1/namespaces/kube-public/configmaps"

_numbers = count()  # of names, none of which is used twice


class Figure(NamedTuple):
    """`more` means that more is better."""

    what: str
    unit: str
    more: bool
    value: float


def _config_map() -> tuple[str, bytes]:
    return CONFIG_MAPS, json.dumps({"metadata": {"name": f"c-{next(_numbers)}"}, "data": {"k": "v"}}).encode()


def _pod() -> tuple[str, bytes]:
    return PODS, json.dumps({**POD, "metadata": {"name": f"p-{next(_numbers)}"}}).encode()


async def _create(connection: Connection, path: str, body: bytes) -> None:
    status, answer = await connection.request("POST", path, body)
    if status != 201:
        raise RuntimeError(answer.decode())


async def _creates(server: RealServer, what: str, made: Callable[[], tuple[str, bytes]]) -> list[Figure]:
    async def one(connection: Connection, _number: int) -> None:
        await _create(connection, *made())

    before = cpu_seconds(server.store_pid)
    per_second, p99 = await rate(server, _CREATES, one)
    used = (cpu_seconds(server.store_pid) - before) / _CREATES * 1e6
    return [
        Figure(f"creates of {what}, 16 connections", "/s", True, per_second),
        Figure(f"creates of {what}, 16 connections: p99", "ms", False, p99),
        Figure(f"creates of {what}, 16 connections: CPU of the store", "µs each", False, used),
    ]


async def _config_maps(server: RealServer) -> list[Figure]:
    return await _creates(server, "config maps", _config_map)


async def _pods(server: RealServer) -> list[Figure]:
    return await _creates(server, "pods", _pod)


async def _lone(server: RealServer) -> list[Figure]:
    """One write after another."""
    taken: list[float] = []
    async with server.connection() as connection:
        for _ in range(_LONE):
            path, body = _config_map()
            started = time.perf_counter()
            await _create(connection, path, body)
            taken.append((time.perf_counter() - started) * 1000)
    taken.sort()
    return [
        Figure("a create, alone: p50", "ms", False, taken[len(taken) // 2]),
        Figure("a create, alone: p99", "ms", False, taken[int(len(taken) * 0.99)]),
    ]


async def _updates(server: RealServer) -> list[Figure]:
    """Patches of 16 objects, each of them read before it is written."""

    async def one(connection: Connection, number: int) -> None:
        body = json.dumps({"data": {"number": str(number)}}).encode()
        path = f"{CONFIG_MAPS}/u-{number % 64}"
        status, answer = await connection.request("PATCH", path, body, "application/merge-patch+json")
        if status != 200:
            raise RuntimeError(answer.decode())

    per_second, p99 = await rate(server, _UPDATES, one)
    return [
        Figure("patches, 16 connections", "/s", True, per_second),
        Figure("patches, 16 connections: p99", "ms", False, p99),
    ]


async def _lists(server: RealServer) -> list[Figure]:
    """Pages come from the store, the whole from the server's memory, once the store has said how new it
    must be.
    """
    found = []
    for what, path in (
        ("a page of 500 pods", f"{PODS}?limit=500&resourceVersionMatch=Exact&resourceVersion="),
        ("all pods, consistent", PODS),
    ):
        taken = []
        async with server.connection() as connection:
            if path.endswith("="):
                _, body = await connection.request("GET", f"{PODS}?limit=1")
                path += json.loads(body)["metadata"]["resourceVersion"]
            for _ in range(_LISTS):
                started = time.perf_counter()
                status, body = await connection.request("GET", path)
                taken.append((time.perf_counter() - started) * 1000)
                if status != 200:
                    raise RuntimeError(body.decode())
        found.append(Figure(f"LIST, {what}", "ms", False, statistics.median(taken)))
    return found


async def _watch_events(server: RealServer) -> list[Figure]:
    written: dict[str, float] = {}
    seen: list[float] = []
    ready = asyncio.Semaphore(0)

    async def watch(since: str) -> None:
        async with server.connection() as connection:
            await connection.watch(f"{_WATCHED}?watch=true&resourceVersion={since}")
            ready.release()
            for _ in range(_EVENTS):
                line = await connection.next_line()
                name = json.loads(line)["object"]["metadata"]["name"]
                seen.append((time.perf_counter() - written[name]) * 1000)

    async with server.connection() as connection:
        _, body = await connection.request("GET", _WATCHED)
        since = json.loads(body)["metadata"]["resourceVersion"]
        watching = [asyncio.create_task(watch(since)) for _ in range(_WATCHERS)]
        for _ in watching:
            await ready.acquire()
        for _ in range(_EVENTS):
            name = f"w-{next(_numbers)}"
            written[name] = time.perf_counter()
            await _create(connection, _WATCHED, json.dumps({"metadata": {"name": name}}).encode())
            await asyncio.sleep(_EVENT_SECONDS)
        await asyncio.gather(*watching)
    seen.sort()
    what = f"{_WATCHERS} watchers, 50 events/s, write → seen"
    return [
        Figure(f"{what}: p50", "ms", False, seen[len(seen) // 2]),
        Figure(f"{what}: p99", "ms", False, seen[int(len(seen) * 0.99)]),
    ]


async def _memory(server: RealServer) -> list[Figure]:
    return [Figure("memory of the store at the end", "MB", False, memory_mb(server.store_pid))]


LOADS: Mapping[str, Callable[[RealServer], Awaitable[list[Figure]]]] = {
    "configmaps": _config_maps,
    "pods": _pods,
    "lone": _lone,
    "updates": _updates,
    "lists": _lists,
    "watches": _watch_events,
}


async def _prepare(server: RealServer) -> None:
    """Makes what the loads need; there is no controller manager that would."""
    async with server.connection() as connection:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await _create(connection, accounts, b'{"metadata":{"name":"default"}}')
        for number in range(64):
            await _create(connection, CONFIG_MAPS, json.dumps({"metadata": {"name": f"u-{number}"}}).encode())


async def rows(options: argparse.Namespace) -> AsyncIterator[Row]:
    loads = [LOADS[name] for name in options.loads.split(",") if name]
    found: dict[str, list[list[Figure]]] = {}
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(real_server(options.binaries, options.minor, store))
            for store in STORES
        ]
        await asyncio.sleep(_SETTLING_SECONDS)
        for server in servers:
            await _prepare(server)
        for turn in range(options.pairs + 1):  # the first one warms up
            for load in loads:
                pair = await _pair(load, servers, turn)
                if turn:
                    for figures in pair:
                        found.setdefault(figures[0].what, []).append(figures)
        for figures in await _pair(_memory, servers, 0):
            found[figures[0].what] = [figures]
    for what, pairs in found.items():
        yield _row(what, pairs)


async def _pair(
    load: Callable[[RealServer], Awaitable[list[Figure]]], servers: Sequence[RealServer], turn: int
) -> list[list[Figure]]:
    """The figures of a load, each with those of both servers; they take turns in who is first."""
    order = [0, 1] if turn % 2 else [1, 0]
    answers = {place: await load(servers[place]) for place in order}
    return [list(figures) for figures in zip(answers[0], answers[1], strict=True)]


def _row(what: str, pairs: Sequence[Sequence[Figure]]) -> Row:
    """The goal is the issue's: nine tenths of etcd's throughput, and six fifths of its latency."""
    etcd, ours = (statistics.median(figures[place].value for figures in pairs) for place in (0, 1))
    ratio = statistics.median(ours.value / etcd.value for etcd, ours in pairs if etcd.value)
    figure = pairs[0][0]
    goal = ("≥ 0.9" if figure.more else "≤ 1.2") if figure.unit in ("/s", "ms") else ""
    return Row(what, f"{etcd:,.1f} {figure.unit}", goal, f"{ours:,.1f} {figure.unit}, {ratio:.2f} of etcd's")

"""Measures API servers that run already, ours or real ones, one alone or two in turns.

All loads work in a namespace of their own, which is deleted at the end. With two servers each load runs at
one and then at the other, so that what else the machine does falls upon both; a row has the median of all
turns, and the median of the pairs' ratios. Above 1 the first server is the better one, whatever is measured.
"""

import asyncio
import json
import os
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from benchmarks.apiserver import POD, rate
from benchmarks.connection import Connection
from benchmarks.row import Row

NAMESPACE = f"kubeskew-benchmark-{os.getpid()}"  # a server without controllers keeps it
_BASE = f"/api/v1/namespaces/{NAMESPACE}"
_PODS, _CONFIG_MAPS = f"{_BASE}/pods", f"{_BASE}/configmaps"
_CREATES, _POD_CREATES, _GETS, _PATCHES = 1500, 1000, 3000, 1000
_LISTED = 2000  # pods, one in a hundred of which has a label's value
_LISTS = 5
_WATCHERS, _EVENTS, _EVENT_SECONDS = 50, 60, 0.02
_READY_SECONDS = 120.0

_numbers = count()  # of names, none of which is used twice


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to get in; without a CA its certificate is not verified."""

    url: str
    token: str
    ca: Path | None = None

    def connection(self) -> Connection:
        parts = urlsplit(self.url)
        tls = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        if self.ca is None:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        return Connection(parts.port or 443, tls, self.token, parts.hostname or "127.0.0.1")


class Figure(NamedTuple):
    """`more` means that more is better."""

    what: str
    unit: str
    more: bool
    value: float


Load = Callable[[Target], Awaitable[list[Figure]]]


async def _asked(
    connection: Connection, method: str, path: str, body: Any = None, kind: str = "application/json"
) -> Any:
    """Raises RuntimeError unless the server does it."""
    status, answer = await connection.request(
        method, path, b"" if body is None else json.dumps(body).encode(), kind
    )
    if not 200 <= status < 300:
        raise RuntimeError(f"{method} {path}: {status}: {answer[:300].decode(errors='replace')}")
    return answer


def _pod(number: int) -> Mapping[str, Any]:
    labels = {"app": "load", "part": str(number % 100)}
    return {**POD, "metadata": {"name": f"p-{number}", "labels": labels}}


def _config_map() -> Mapping[str, Any]:
    return {"metadata": {"name": f"c-{next(_numbers)}"}, "data": {"key": "value"}}


async def _gets(target: Target) -> list[Figure]:
    async def one(connection: Connection, _number: int) -> None:
        await _asked(connection, "GET", f"{_CONFIG_MAPS}/read")

    per_second, p99 = await rate(target, _GETS, one)
    return [_rate("GET", per_second), _p99("GET", p99)]


async def _creates(target: Target) -> list[Figure]:
    async def one(connection: Connection, _number: int) -> None:
        await _asked(connection, "POST", _CONFIG_MAPS, _config_map())

    per_second, p99 = await rate(target, _CREATES, one)
    return [_rate("creates", per_second), _p99("creates", p99)]


async def _pods(target: Target) -> list[Figure]:
    async def one(connection: Connection, _number: int) -> None:
        await _asked(connection, "POST", _PODS, _pod(next(_numbers)))

    per_second, p99 = await rate(target, _POD_CREATES, one)
    return [_rate("creates of pods", per_second), _p99("creates of pods", p99)]


async def _patches(target: Target) -> list[Figure]:
    async def one(connection: Connection, number: int) -> None:
        body = {"data": {"number": str(number)}}
        path = f"{_CONFIG_MAPS}/patched-{number % 64}"
        await _asked(connection, "PATCH", path, body, "application/merge-patch+json")

    per_second, p99 = await rate(target, _PATCHES, one)
    return [_rate("patches", per_second), _p99("patches", p99)]


async def _lists(target: Target) -> list[Figure]:
    """Lists the pods of a label that only these have, so that their number is the same in each turn."""
    selected = "labelSelector=set%3Dlisted"
    found = []
    async with target.connection() as connection:
        for what, query in (
            (f"LIST of {_LISTED:,} pods", selected),
            (f"LIST of {_LISTED:,} pods, resourceVersion=0", f"{selected}&resourceVersion=0"),
            (f"LIST by label, 1 % of {_LISTED:,}", f"{selected}%2Cpart%3D7"),
        ):
            taken = []
            for _ in range(_LISTS):
                started = time.perf_counter()
                await _asked(connection, "GET", f"{_PODS}?{query}")
                taken.append((time.perf_counter() - started) * 1000)
            found.append(Figure(what, "ms", False, statistics.median(taken)))
    return found


async def _watches(target: Target) -> list[Figure]:
    """Times from the begin of a write to the line of each watcher."""
    written: dict[str, float] = {}
    seen: list[float] = []
    ready = asyncio.Semaphore(0)

    async def watch(since: str) -> None:
        async with target.connection() as connection:
            await connection.watch(f"{_CONFIG_MAPS}?watch=true&resourceVersion={since}")
            ready.release()
            left = _EVENTS
            while left:
                name = json.loads(await connection.next_line())["object"]["metadata"]["name"]
                if name in written:
                    seen.append((time.perf_counter() - written[name]) * 1000)
                    left -= 1

    async with target.connection() as connection:
        answer = await _asked(connection, "GET", f"{_CONFIG_MAPS}?limit=1")
        since = json.loads(answer)["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as watching:
            for _ in range(_WATCHERS):
                watching.create_task(watch(since))
            for _ in range(_WATCHERS):
                await ready.acquire()
            for _ in range(_EVENTS):
                made = _config_map()
                written[made["metadata"]["name"]] = time.perf_counter()
                await _asked(connection, "POST", _CONFIG_MAPS, made)
                await asyncio.sleep(_EVENT_SECONDS)
    seen.sort()
    what = f"{_WATCHERS} watchers, write → seen"
    return [
        Figure(f"{what}: p50", "ms", False, seen[len(seen) // 2]),
        Figure(f"{what}: p99", "ms", False, seen[int(len(seen) * 0.99)]),
    ]


def _rate(what: str, per_second: float) -> Figure:
    return Figure(f"{what}, 16 connections", "/s", True, per_second)


def _p99(what: str, milliseconds: float) -> Figure:
    return Figure(f"{what}, 16 connections: p99", "ms", False, milliseconds)


LOADS: Sequence[Load] = (_gets, _creates, _pods, _patches, _lists, _watches)


@asynccontextmanager
async def _prepared(target: Target) -> AsyncIterator[None]:
    """Makes the namespace and what the loads need, and deletes it all."""
    async with target.connection() as connection:
        await _asked(connection, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        async with asyncio.timeout(_READY_SECONDS), target.connection() as connection:
            await _account(connection)
            for name in ("read", *(f"patched-{number}" for number in range(64))):
                await _asked(connection, "POST", _CONFIG_MAPS, {"metadata": {"name": name}})
            for number in range(_LISTED):
                pod = _pod(number)
                labels = {**pod["metadata"]["labels"], "set": "listed"}
                pod = {**pod, "metadata": {"name": f"listed-{number}", "labels": labels}}
                await _asked(connection, "POST", _PODS, pod)
        yield
    finally:
        async with target.connection() as connection:
            for path in (f"{_PODS}?gracePeriodSeconds=0", _CONFIG_MAPS, f"/api/v1/namespaces/{NAMESPACE}"):
                await connection.request("DELETE", path)


async def _account(connection: Connection) -> None:
    """Makes the service account that pods need, unless a controller has made it meanwhile."""
    body = json.dumps({"metadata": {"name": "default"}}).encode()
    status, answer = await connection.request("POST", f"{_BASE}/serviceaccounts", body)
    if status not in {201, 409}:
        raise RuntimeError(answer.decode(errors="replace"))


async def rows(target: Target, other: Target | None, pairs: int) -> AsyncIterator[Row]:
    """Raises RuntimeError if a server does not do what the loads ask."""
    targets = [target] if other is None else [target, other]
    found: dict[str, list[Sequence[Figure]]] = {}
    for each in targets:
        async with each.connection() as connection:
            await _asked(connection, "GET", "/version")
    async with _all_prepared(targets):
        for turn in range(pairs + 1):  # the first one warms up
            for load in LOADS:
                order = range(len(targets)) if turn % 2 else reversed(range(len(targets)))
                answers = {place: await load(targets[place]) for place in order}
                for figures in zip(*(answers[place] for place in range(len(targets))), strict=True):
                    if turn:
                        found.setdefault(figures[0].what, []).append(figures)
    for what, turns in found.items():
        yield _row(what, turns)


@asynccontextmanager
async def _all_prepared(targets: Sequence[Target]) -> AsyncIterator[None]:
    if not targets:
        yield
        return
    async with _prepared(targets[0]), _all_prepared(targets[1:]):
        yield


def _row(what: str, turns: Sequence[Sequence[Figure]]) -> Row:
    """Has the other server in the column `real`, if there is one, and the ratio beside the first one's."""
    first = turns[0][0]
    medians = [statistics.median(figures[place].value for figures in turns) for place in range(len(turns[0]))]
    shown = [f"{median:,.1f} {first.unit}" for median in medians]
    if len(medians) == 1:
        return Row(what, "", "", shown[0])
    ratios = [
        mine.value / theirs.value if first.more else theirs.value / mine.value
        for mine, theirs in turns
        if mine.value and theirs.value
    ]
    return Row(what, shown[1], "", f"{shown[0]}, ratio {statistics.median(ratios):.2f}")

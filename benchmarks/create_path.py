"""Counts how far a create of a pod goes through the code: `python -m benchmarks.create_path`.

A server in this process over a store in memory gets a parsed request of an administrator, without sockets.
What runs on the event loop until the answer is there is counted: modules of this project that are entered,
calls of their functions, calls that cross from one module to another, and the most nested ones. A coroutine
that waits and goes on counts once. Modules that a first create imports are imported before.
"""

import asyncio
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.apiserver import POD, PODS
from kubeskew import apimachinery
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore

_IN_MEMORY = "sqlite+aiosqlite://"
_ADMIN = Peer("admin", ("system:masters",))
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_OURS = str(Path(apimachinery.__file__).parents[1])
_WARM_UP, _MEASURED = 5, 20


class Counts(NamedTuple):
    modules: int
    calls: int
    moves: int
    depth: int


class _Counter:
    """Counts calls while it is the interpreter's profiler."""

    def __init__(self) -> None:
        self._seen: set[FrameType] = set()
        self._modules: set[str] = set()
        self._calls = self._moves = self._depth = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or frame in self._seen or not _is_ours(frame):
            return
        self._seen.add(frame)
        module = frame.f_code.co_filename
        self._modules.add(module)
        self._calls += 1
        callers = _callers(frame)
        self._depth = max(self._depth, len(callers) + 1)
        if callers and callers[0].f_code.co_filename != module:
            self._moves += 1

    def counts(self) -> Counts:
        return Counts(len(self._modules), self._calls, self._moves, self._depth)


def _is_ours(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_OURS) and "/benchmarks/" not in path and "/.venv/" not in path


def _callers(frame: FrameType) -> list[FrameType]:
    """The nearest frame comes first; those of other projects are left out."""
    callers, caller = [], frame.f_back
    while caller is not None:
        if _is_ours(caller):
            callers.append(caller)
        caller = caller.f_back
    return callers


async def _post(server: APIServer, path: str, body: dict[str, Any]) -> None:
    headers = {"content-type": "application/json", "user-agent": "benchmark"}
    response = await server.handle(Request.of("POST", path, headers, json.dumps(body).encode(), _ADMIN))
    assert response.status in {201, 409}, response.body


async def count_create() -> Counts:
    """Takes the medians over some creates of a pod."""
    environment = Environment(
        DEFAULT_VERSION, FeatureGates(DEFAULT_VERSION, {}), SystemClock(), SeededEntropy(1)
    )
    log = await SQLLog.open(_IN_MEMORY, environment.clock)
    store = await CachedStore.open(log, environment.clock)
    server = APIServer(ServerOptions(storage_url=_IN_MEMORY), environment, store, log)
    await server.bootstrap()
    await _post(server, _ACCOUNTS, {"metadata": {"name": "default"}})
    counts = []
    for number in range(_WARM_UP + _MEASURED):
        body = {**POD, "metadata": {"labels": {"app": "load"}, "name": f"pod-{number}"}}
        counter = _Counter()
        sys.setprofile(counter if number >= _WARM_UP else None)
        await _post(server, PODS, body)
        sys.setprofile(None)
        counts.append(counter.counts())
    await server.end()
    await store.close()
    columns = zip(*counts[_WARM_UP:], strict=True)
    return Counts(*(sorted(column)[_MEASURED // 2] for column in columns))


if __name__ == "__main__":
    for name, number in asyncio.run(count_create())._asdict().items():
        print(f"{name:8} {number}")

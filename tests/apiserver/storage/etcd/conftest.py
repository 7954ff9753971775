"""The backings that the tests of etcd's API run over, and servers over them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from etcd_calls import LocalClient
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apiserver.storage.etcd.backing import Backing
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.memory_log import MemoryLog
from kubeskew.apiserver.storage.sql_log import SQLLog

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(params=["memory", "log in memory", "log in a file", POSTGRESQL])
async def backing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backing]:
    """An empty backing of each implementation, on a log of each kind."""
    opened = await open_backing(request, tmp_path)
    yield opened
    await opened.close()


async def open_backing(request: pytest.FixtureRequest, directory: Path) -> Backing:
    clock = SystemClock()
    if request.param == "memory":
        return MemoryBacking()
    if request.param == "log in memory":
        return await LogBacking.open(MemoryLog(), clock)
    url = f"sqlite+aiosqlite:///{directory / 'events.db'}"
    if request.param == POSTGRESQL.values[0]:
        url = request.getfixturevalue("postgresql").fresh()
    return await LogBacking.open(await SQLLog.open(url, clock), clock)


@pytest.fixture(params=["memory", "log in memory"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EtcdServer]:
    """A server over an empty backing of those that need no thread, as virtual time wants it."""
    backing = await open_backing(request, tmp_path)
    opened = await EtcdServer.open(backing, LoopClock(), SeededEntropy(1), progress_seconds=30)
    yield opened
    await opened.close()


@pytest.fixture
async def memory_server() -> AsyncIterator[EtcdServer]:
    """A server over memory in real time, for calls through sockets."""
    opened = await EtcdServer.open(MemoryBacking(), SystemClock(), SeededEntropy(1))
    yield opened
    await opened.close()


@pytest.fixture
def client(server: EtcdServer) -> LocalClient:
    return LocalClient(server)

"""The backings that the tests of etcd's API run over, and servers over them."""

from collections.abc import AsyncIterator

import pytest
from etcd_calls import LocalClient
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apiserver.storage.etcd.backing import Backing
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.server import EtcdServer


@pytest.fixture(params=["memory"])
async def backing(request: pytest.FixtureRequest) -> AsyncIterator[Backing]:
    """An empty backing of each implementation."""
    opened = MemoryBacking()
    yield opened
    await opened.close()


@pytest.fixture
async def server(backing: Backing) -> AsyncIterator[EtcdServer]:
    """A server over an empty backing of each implementation."""
    opened = await EtcdServer.open(backing, LoopClock(), SeededEntropy(1), progress_seconds=30)
    yield opened
    await opened.close()


@pytest.fixture
def client(server: EtcdServer) -> LocalClient:
    return LocalClient(server)

"""The backings that the tests of etcd's API run over."""

from collections.abc import AsyncIterator

import pytest

from kubeskew.apiserver.storage.etcd.backing import Backing
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking


@pytest.fixture(params=["memory"])
async def backing(request: pytest.FixtureRequest) -> AsyncIterator[Backing]:
    """An empty backing of each implementation."""
    opened = MemoryBacking()
    yield opened
    await opened.close()

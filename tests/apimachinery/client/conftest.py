"""A world for client tests: virtual time, a seed and an API server in memory."""

import pytest
from fake_server import FakeServer
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy


@pytest.fixture
def clock():
    return LoopClock()


@pytest.fixture
def entropy():
    return SeededEntropy(1)


@pytest.fixture
def server(clock, entropy):
    return FakeServer(clock, entropy)


@pytest.fixture
async def client(server):
    client = server.client()
    yield client
    await client.close()

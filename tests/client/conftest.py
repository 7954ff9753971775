"""A world for client tests: virtual time, a seed and an API server in memory."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from apimachinery.client.fake import FakeServer
from apimachinery.clock import SeededEntropy


class LoopClock:
    """A clock that follows the event loop's (virtual) time from a fixed start."""

    start = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.start + timedelta(seconds=self.monotonic())

    def monotonic(self):
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds):
        await asyncio.sleep(max(0.0, seconds))


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

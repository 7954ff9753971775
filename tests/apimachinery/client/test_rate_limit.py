"""A bucket of tokens, in virtual time."""

import asyncio

import pytest

from kubeskew.apimachinery.client.workqueue import RateLimit

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def test_a_burst_is_allowed_and_then_the_rate(clock):
    """The bucket allows as many uses at once as it holds, after that one for each token that has come."""
    limit = RateLimit(clock, rate=2, burst=3)
    assert [limit.allows() for _ in range(4)] == [True, True, True, False]
    await asyncio.sleep(0.6)
    assert [limit.allows() for _ in range(2)] == [True, False]
    await asyncio.sleep(60)
    assert [limit.allows() for _ in range(4)] == [True, True, True, False]


async def test_waiting_uses_come_in_order_at_the_rate(clock):
    """A use that finds the bucket empty waits for a token of its own, in turn."""
    limit = RateLimit(clock, rate=2, burst=1)
    began, came = clock.monotonic(), []

    async def use(name):
        await limit.wait()
        came.append((name, round(clock.monotonic() - began, 3)))

    await asyncio.gather(*map(use, "abc"))
    assert came == [("a", 0.0), ("b", 0.5), ("c", 1.0)]

"""Starts of nodes, a few at a time."""

import asyncio

import pytest

from kubeskew.kubelet.node.status import StartLimiter

pytestmark = pytest.mark.looptime


async def _work(starts, seconds, begun):
    async with starts.slot():
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(seconds)


async def test_so_many_at_a_time(looptime):
    """The third begins when one of two is done."""
    starts, begun = StartLimiter(2, 60.0), []
    await asyncio.gather(*(_work(starts, 1.0, begun) for _ in range(5)))

    assert begun == [0, 0, 1, 1, 2]


async def test_nobody_waits_for_one_that_gets_nowhere(looptime):
    """A slot that is held too long is over for the others, and is not given twice."""
    starts, begun = StartLimiter(1, 2.0), []
    await asyncio.gather(*(_work(starts, 5.0, begun) for _ in range(4)))

    assert begun == [0, 2, 4, 6]

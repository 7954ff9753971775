"""Taking turns."""

import asyncio

import pytest

from kubeskew.kubelet.starting_in_turns import Turns

pytestmark = pytest.mark.looptime


async def _work(turns, seconds, begun):
    async with turns.turn():
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(seconds)


async def test_so_many_at_a_time(looptime):
    """The third begins when one of two is done."""
    turns, begun = Turns(2, 60.0), []
    await asyncio.gather(*(_work(turns, 1.0, begun) for _ in range(5)))

    assert begun == [0, 0, 1, 1, 2]


async def test_nobody_waits_for_one_that_gets_nowhere(looptime):
    """A turn that takes too long is over for the others, and is not given twice."""
    turns, begun = Turns(1, 2.0), []
    await asyncio.gather(*(_work(turns, 5.0, begun) for _ in range(4)))

    assert begun == [0, 2, 4, 6]

"""The collector of garbage rests while large requests are under way, and not longer."""

import gc

import pytest
from server_in_process import MAPS, config_map

from kubeskew.apiserver.caching import gc_control as module
from kubeskew.apiserver.caching.gc_control import LARGE, Garbage
from kubeskew.apiserver.caching.offload import beside


@pytest.fixture
def collected(monkeypatch):
    """A list that has an item for every time that garbage was looked for."""
    found = []
    monkeypatch.setattr(module.gc, "collect", found.append)
    return found


def test_rest_and_work(collected):
    """Off from the first large thing to the end of the last; small ones change nothing."""
    garbage = Garbage()
    garbage.begin(LARGE)
    assert gc.isenabled()
    garbage.begin(LARGE + 1)
    garbage.begin(20 << 20)
    assert not gc.isenabled()
    garbage.end(20 << 20)
    garbage.end(LARGE)
    assert not gc.isenabled()
    garbage.end(LARGE + 1)
    assert gc.isenabled()
    assert not collected


def test_looked_for_afterwards(collected):
    """After so many bytes it is looked for, without large things around if there is such a moment."""
    garbage = Garbage()
    for _ in range(2):
        garbage.begin(40 << 20)
        garbage.begin(40 << 20)
        garbage.end(40 << 20)
        assert not collected
        garbage.end(40 << 20)
        assert collected == [1]
        collected.clear()
    garbage.begin(LARGE + 1)
    for _ in range(4):
        garbage.begin(40 << 20)
        garbage.end(40 << 20)
    assert collected == [1]
    garbage.end(LARGE + 1)


@pytest.mark.parametrize("body", [config_map("a", data={"k": "x" * 70_000}), b"{" * 70_000])
async def test_a_large_request(api, body):
    """A large body puts the collector to rest until its answer is made, whatever the answer."""
    answer = await api.post(MAPS, body)

    assert answer.status in {201, 400}
    assert gc.isenabled()


async def test_work_that_fails():
    """It wakes up after a failure too."""

    def fail():
        assert not gc.isenabled()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await beside(LARGE + 1, fail)

    assert gc.isenabled()

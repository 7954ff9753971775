"""The collector of garbage rests while large requests are under way, and not longer."""

import gc

import pytest
from server_in_process import MAPS, config_map

from kubeskew.apiserver.caching import offload as module
from kubeskew.apiserver.caching.offload import LARGE, collection_paused, offload


@pytest.fixture
def collected(monkeypatch):
    """A list that has an item for every time that garbage was looked for."""
    found = []
    monkeypatch.setattr(module.gc, "collect", found.append)
    monkeypatch.setattr(module, "_large", module._LargeObjects())
    return found


def test_rest_and_work(collected):
    """Off from the first large thing to the end of the last; small ones change nothing."""
    with collection_paused(LARGE):
        assert gc.isenabled()
    first, second = collection_paused(LARGE + 1), collection_paused(20 << 20)
    with first:
        with second, collection_paused(LARGE):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not collected


def test_pauses_that_overlap(collected):
    """The first to begin may be the first to end: the collector rests until the last one ends."""
    first, second = collection_paused(LARGE + 1), collection_paused(LARGE + 1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_looked_for_afterwards(collected):
    """After so many bytes it is looked for, without large things around if there is such a moment."""
    for _ in range(2):
        with collection_paused(40 << 20):
            with collection_paused(40 << 20):
                pass
            assert not collected
        assert collected == [1]
        collected.clear()
    with collection_paused(LARGE + 1):
        for _ in range(4):
            with collection_paused(40 << 20):
                pass
        assert collected == [1]


@pytest.mark.parametrize("body", [config_map("a", data={"k": "x" * 70_000}), b"{" * 70_000])
async def test_a_large_request(api, body):
    """A large body puts the collector to rest until its answer is made, regardless of the answer."""
    answer = await api.post(MAPS, body)

    assert answer.status in {201, 400}
    assert gc.isenabled()


async def test_work_that_fails():
    """The collection of garbage goes on after work that failed, too."""

    def fail():
        assert not gc.isenabled()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await offload(LARGE + 1, fail)

    assert gc.isenabled()

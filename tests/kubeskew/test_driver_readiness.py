"""A DRA driver counts as ready by what it says of its pools, and what the API server has of them."""

from types import SimpleNamespace

import pytest

from kubeskew.cluster import config, creation, driver_readiness

DRIVER = "gpu.example.com"


def pool(*uids, wanted=1, generation=1, error=""):
    """A pool as the driver's process tells of it."""
    slices = {f"slice-{uid}": uid for uid in uids}
    return {"generation": generation, "slices": slices, "wanted": wanted, "error": error}


def stored(uid, generation=1):
    """A slice of the API server's list."""
    return {"metadata": {"uid": uid}, "spec": {"pool": {"name": "n", "generation": generation}}}


@pytest.mark.parametrize(
    ("told", "slices", "ready"),
    [
        (pool("a"), [stored("a")], True),
        (pool("a", "b", wanted=2), [stored("a"), stored("b")], True),
        (pool(), [], False),  # it has not begun, or nothing is left
        (pool("a"), [], False),
        (pool("a"), [stored("b")], False),
        (pool("a", wanted=2), [stored("a")], False),
        (pool("old", "a", generation=2), [stored("old"), stored("a", 2)], True),
        (pool("old", generation=2), [stored("old")], False),
        (pool(wanted=0), [], True),
        (pool(error="found duplicate device"), [], True),
    ],
)
async def test_ready_is_what_the_server_has(ports, told, slices, ready):
    """A driver is ready once the server has all its slices of the pool's generation and it knows them."""
    nodes = [{"name": "n", "drivers": [{"name": DRIVER, "devices": 1}]}]
    state = creation.plan(config.parse({"nodes": nodes}, "test"), ports)
    (process,) = state.of_kind("driver")
    page = {"driver": DRIVER, "revision": state.driver_revision, "api": "resource.k8s.io/v1", "nodes": {}}

    async def json(url):
        return {**page, "pools": {"n": told}} if url.endswith("/driver") else {"items": slices}

    async def nothing(_process):
        return {}

    def server_of(state, _component=""):
        return state.of_kind("apiserver")[0]

    probes = SimpleNamespace(json=json, missing=nothing, plugins=nothing, server_of=server_of)
    lacking = await driver_readiness.missing(probes, state, process)

    assert lacking == ("" if ready else "its slices are not stored yet, of the pools: n")

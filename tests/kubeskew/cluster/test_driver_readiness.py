"""A DRA driver counts as ready by what it says of its pools, and what the API server has of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from kubeskew.cluster import config, creation, readiness
from kubeskew.kubelet.drivers.resourceslice_controller import WRITTEN_SECONDS

DRIVER = "gpu.example.com"


def pool(*uids, wanted=1, generation=1, error=""):
    """A pool as the driver's process reports it."""
    slices = {f"slice-{uid}": uid for uid in uids}
    return {"generation": generation, "slices": slices, "wanted": wanted, "error": error}


def stored(uid, generation=1):
    """A slice of the API server's list."""
    return {"metadata": {"uid": uid}, "spec": {"pool": {"name": "n", "generation": generation}}}


@pytest.mark.parametrize(
    ("published", "slices", "ready"),
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
async def test_ready_is_what_the_server_has(ports, published, slices, ready):
    """A driver is ready once the server has all its slices of the pool's generation and it knows them."""
    nodes = [{"name": "n", "drivers": [{"name": DRIVER, "devices": 1}]}]
    state = creation.plan(config.parse({"nodes": nodes}, "test"), ports)
    (process,) = state.of_kind("driver")
    page = {"driver": DRIVER, "revision": state.driver_revision, "api": "resource.k8s.io/v1", "nodes": {}}

    async def json(url):
        return {**page, "pools": {"n": published}} if url.endswith("/driver") else {"items": slices}

    async def nothing(_process):
        return {}

    def server_of(state, _component=""):
        return state.of_kind("apiserver")[0]

    probes = SimpleNamespace(
        json=json, missing=nothing, plugins=nothing, resources=nothing, server_of=server_of
    )
    lacking = await readiness.missing_of_driver(probes, state, process)

    assert lacking == ("" if ready else "its slices are not stored yet, of the pools: n")


@pytest.mark.parametrize(
    ("entries", "ready"),
    [
        ({DRIVER: {"digest": "abc", "published": True}}, True),
        ({DRIVER: {"digest": "abc", "published": False}}, False),
        ({DRIVER: {"digest": "", "published": True}}, False),  # the kubelet has not been informed yet
        ({DRIVER: {"digest": "old", "published": True}}, False),
        ({}, True),  # it does not ask, or the driver does not report
        ({"other.example.com": {"digest": "x", "published": False}}, True),
    ],
)
async def test_ready_is_what_the_kubelet_has_published(ports, entries: dict[str, Any], ready):
    """A driver for which kubelets publish is ready once its kubelet has what it shows, in slices."""
    nodes = [{"name": "n", "drivers": [{"name": DRIVER, "devices": 1}]}]
    state = creation.plan(config.parse({"version": "1.30", "nodes": nodes}, "test"), ports)
    (process,) = state.of_kind("driver")
    node = {"shown": True, "registered": True, "refused": "", "digest": "abc"}
    page = {"driver": DRIVER, "revision": state.driver_revision, "api": None, "nodes": {"n": node}}

    async def json(_url):
        return page

    async def nothing(_process):
        return {}

    async def plugins(_kubelet):
        return {"n": [DRIVER]}

    async def resources(_kubelet):
        return {"n": entries}

    for server in (state.of_kind("apiserver")[0], None):
        probes = SimpleNamespace(
            json=json,
            missing=nothing,
            plugins=plugins,
            resources=resources,
            server_of=lambda *_, server=server: server,
        )
        lacking = await readiness.missing_of_driver(probes, state, process)
        waiting = server is not None and not ready
        assert lacking == ("its slices are not published by the kubelets of: n" if waiting else "")


def test_a_wait_outlasts_what_a_library_believes():
    """A driver publishes again what it takes to be stored once its cache of writes ends, within the wait."""
    assert WRITTEN_SECONDS + 5 < readiness.START_SECONDS

"""The devices in use are gathered in two looks: a binding that ends between them is overlooked (136269)."""

import asyncio

import pytest
from dynamic_cluster import RESULT, one_node
from loop_clock import LoopClock
from scheduling_cluster import running

from kubeskew.scheduler.allocator.allocated_state import DeviceID
from kubeskew.scheduler.cooperative import in_turns, pause
from kubeskew.scheduler.plugins.dynamicresources import devices_in_use
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.devices_in_use import TwoLooks

pytestmark = pytest.mark.looptime

CLAIM = {"metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1"}, "spec": {}}
ALLOCATION = {"devices": {"results": [RESULT]}}
DEVICE = DeviceID(RESULT["driver"], RESULT["pool"], RESULT["device"])


class Draws:
    """Draws the same number each time."""

    def __init__(self, number):
        self._number = number

    def random(self):
        return self._number


@pytest.mark.parametrize(("drawn", "found"), [(0.0, set()), (0.5, {DEVICE})])
async def test_a_binding_that_ends_between_two_looks(drawn, found):
    """An interrupted attempt sees the device neither at the claim nor in flight, another in flight."""
    claims = ClaimTracker()
    claims.set_claim(CLAIM)
    claims.add_pending("u", ALLOCATION)

    async def bind():
        claims.assume(
            {
                **CLAIM,
                "metadata": {**CLAIM["metadata"], "resourceVersion": "2"},
                "status": {"allocation": ALLOCATION},
            }
        )
        claims.remove_pending("u")

    binding = asyncio.create_task(bind())
    state = await in_turns(LoopClock(), TwoLooks(claims, Draws(drawn)).devices)
    await binding

    assert set(state.devices) == found
    assert (state.releases, state.changes) == (None, None)  # nothing is remembered beyond the attempt
    assert set(claims.allocated.devices) == {DEVICE}


@pytest.mark.parametrize(("version", "twice"), [("1.35.0", True), ("1.35.1", False)])
async def test_the_next_pod_gets_a_device_that_was_overlooked(version, twice, monkeypatch):
    """Pods get the same device where a binding ends while the next attempt looks for those in use."""
    cluster = await one_node(version, devices=4)
    for name in "0123":
        await cluster.claim(f"c{name}")
        await cluster.pod(f"p{name}", resourceClaims=[{"name": "x", "resourceClaimName": f"c{name}"}])
    update = cluster.connection.update

    async def slow_update(*arguments):
        for _ in range(5):
            await asyncio.sleep(0)
        return await update(*arguments)

    def long_pause():
        for _ in range(50):
            pause()

    monkeypatch.setattr(cluster.connection, "update", slow_update)
    monkeypatch.setattr(devices_in_use, "pause", long_pause)
    monkeypatch.setattr(devices_in_use, "_ATTEMPTS", 1)
    async with running(cluster):
        for name in "0123":
            await cluster.node_of(f"p{name}")
        allocated = [claim["status"]["allocation"]["devices"]["results"] for claim in await cluster.claims()]

    assert (len({result["device"] for (result,) in allocated}) < len(allocated)) is twice

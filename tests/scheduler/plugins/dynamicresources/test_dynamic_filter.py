"""DynamicResources on the nodes: searches, claims that are given up, and which node is preferred."""

import asyncio

import pytest
from dynamic_cluster import CLAIM, ELSEWHERE, PREEMPTION, RESULT, bound, one_node, only_claim
from scheduling_cluster import DRIVER, Cluster, running

from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.claims import SearchTimeout

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(("version", "is_error"), [("1.35", False), ("1.36", True)])
async def test_a_search_without_time_is_reported(version, is_error, monkeypatch):
    """A search that takes too long is given up; since 1.36 that is an error."""

    def find(self, node, claims, timer):
        raise SearchTimeout

    monkeypatch.setattr(Allocator, "find", find)
    cluster = await one_node(version)
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        reason, text = await cluster.message()
    if is_error:
        expected = 'running "DynamicResources" filter plugin: node n0: timed out trying to allocate devices'
        assert (reason, text) == ("SchedulerError", expected)
    else:
        assert reason == "Unschedulable"
        assert "1 timed out trying to allocate devices. still not schedulable, " in text


async def test_a_claim_elsewhere_is_given_up():
    """A claim that nobody uses is deallocated if its devices keep a pod from every node."""
    cluster = await one_node()
    await cluster.claim()
    await cluster.set_claim_status(
        allocation=ELSEWHERE, devices=[{"driver": DRIVER, "pool": "n0", "device": "gpu-0"}]
    )
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        assert (await cluster.message())[1] == (
            "0/1 nodes are available: 1 resourceclaim not available on the node. "
            f"deallocation of ResourceClaim completed, {PREEMPTION}"
        )
        await bound(cluster)

        status = (await only_claim(cluster))["status"]
        assert status["allocation"]["devices"]["results"] == [RESULT]
        assert "devices" not in status


async def test_a_claim_that_others_use_is_not_given_up():
    """The pod waits; from 1.37 on nothing more is said about it."""
    for version, more in (("1.36", "still not schedulable, "), ("1.37", "")):
        cluster = await one_node(version)
        await cluster.claim()
        await cluster.set_claim_status(
            allocation=ELSEWHERE, reservedFor=[{"resource": "pods", "name": "o", "uid": "o"}]
        )
        async with running(cluster):
            await cluster.pod(resourceClaims=CLAIM)

            said = (await cluster.message())[1]
            expected = (
                f"0/1 nodes are available: 1 resourceclaim not available on the node. {more}{PREEMPTION}"
            )
            assert said == expected


async def test_evaluations_are_counted():
    """Each plugin is counted where it had something to say: per attempt, and per node."""
    cluster = await one_node()
    await cluster.node("other")
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        await bound(cluster)

    text = cluster.metrics()
    for point, number in (("PreFilter", 1), ("Filter", 2)):
        labels = f'extension_point="{point}",plugin="DynamicResources",profile="default-scheduler"'
        assert f"scheduler_plugin_evaluation_total{{{labels}}} {number}.0" in text
    assert 'extension_point="Score",plugin="DynamicResources"' not in text


async def test_pods_without_claims_are_none_of_its_business():
    """PreFilter has nothing to say to a pod that asks for no devices, and Filter is not asked."""
    cluster = await one_node()
    async with running(cluster):
        await cluster.pod(requests={"cpu": "1"})
        await bound(cluster)

    counted = [
        line for line in cluster.metrics().splitlines() if "scheduler_plugin_evaluation_total{" in line
    ]
    assert counted
    assert not [line for line in counted if 'plugin="DynamicResources"' in line and '"Filter"' in line]
    assert not [line for line in counted if 'plugin="DynamicResources"' in line and '"Reserve"' in line]


@pytest.mark.parametrize(("version", "expected"), [("1.35", {"good"}), ("1.34", {"good", "n0"})])
async def test_the_node_with_the_better_alternative_is_preferred(version, expected):
    """Since 1.35 nodes are scored by which alternatives they serve."""
    cluster = await one_node(version, devices=8)
    await cluster.node("good", devices=8)
    parts = [
        {
            "name": name,
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
        }
        for name in ("first", "second")
    ]
    await cluster.client.update(
        cluster.refs.slices,
        {
            **(await cluster.client.get(cluster.refs.slices, "good", "")),
            "spec": {
                "driver": DRIVER,
                "nodeName": "good",
                "pool": {"name": "good", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{i}", "attributes": {"best": {"bool": True}}} for i in range(8)],
            },
        },
    )
    best = f"'best' in device.attributes['{DRIVER}']"
    parts[0]["selectors"] = [{"cel": {"expression": best}}]
    used = set()
    async with running(cluster):
        for number in range(6):
            await cluster.claim(f"c{number}", requests=[{"name": "r", "firstAvailable": parts}])
            reference = [{"name": "x", "resourceClaimName": f"c{number}"}]
            await cluster.pod(f"p{number}", resourceClaims=reference)
            used.add(await cluster.node_of(f"p{number}"))
    assert used == expected


async def test_admin_access_takes_nothing():
    """A claim with admin access gets devices that others hold, and keeps them from nobody."""
    cluster = await one_node()
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    await cluster.claim("c0", requests=[{"name": "r", "exactly": {**exactly, "adminAccess": True}}])
    await cluster.claim("c1")
    async with running(cluster):
        for name in ("c0", "c1"):
            await cluster.pod(name, resourceClaims=[{"name": "x", "resourceClaimName": name}])
            await bound(cluster, name)

    results = [claim["status"]["allocation"]["devices"]["results"] for claim in await cluster.claims()]
    assert results == [[{**RESULT, "adminAccess": True}], [RESULT]]


async def test_devices_that_were_given_back_are_found_again():
    """A result cached for a node is dropped once a device is given back."""
    cluster = await one_node()
    async with running(cluster):
        for number in range(2):
            await cluster.claim(f"c{number}")
            reference = [{"name": "x", "resourceClaimName": f"c{number}"}]
            await cluster.pod(f"p{number}", resourceClaims=reference)
        await bound(cluster, "p0")
        assert "1 cannot allocate all claims. still not schedulable, " in (await cluster.message("p1"))[1]

        await cluster.set_claim_status("c0", allocation=None, reservedFor=None)
        await bound(cluster, "p1")


@pytest.mark.parametrize(("version", "seconds"), [("1.31", (200, 400)), ("1.32", (0, 30))])
async def test_whether_slices_wake_pods(version, seconds):
    """A pod that waits for devices is tried again when a slice comes since 1.32; before, at the flush of what
    has waited for five minutes.
    """
    cluster = Cluster(version, DynamicResourceAllocation=True)
    await cluster.node("n0")
    await cluster.device_class()
    flat = {"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    await cluster.claim(requests=[flat])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        await cluster.message()
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
        device = {"name": "gpu-0", "basic": {}}
        spec = {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": [device]}
        await cluster.client.create(cluster.refs.slices, {"metadata": {"name": "n0"}, "spec": spec})

        await bound(cluster)
        least, most = seconds
        assert least <= asyncio.get_running_loop().time() - before <= most

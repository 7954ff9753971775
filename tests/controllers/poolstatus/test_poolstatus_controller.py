"""Requests for the status of pools are answered once, and cleaned up."""

import pytest
from prometheus_client import generate_latest

from kubeskew.apimachinery.client.refs import POOL_STATUS_REQUESTS, dra_refs, taint_rules_ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.poolstatus.controller import PoolStatusController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

V36, V37 = Version(36), Version(37)
REFS = dra_refs(V36)


def slice_(name, *devices, pool="a", generation=1, count=1, node="n", **fields):
    place = {"name": pool, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": "d", "nodeName": node, "pool": place, "devices": [*devices], **fields}
    return {"metadata": {"name": name}, "spec": spec}


def device(name, **fields):
    return {"name": name, **fields}


def claim(name, *devices, **fields):
    results = [{"request": "r", "driver": "d", "pool": "a", "device": device, **fields} for device in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": {}}, "status": status}


async def ask(cluster, **spec):
    body = {"metadata": {"name": "q"}, "spec": {"driver": "d", **spec}}
    await cluster.client.create(POOL_STATUS_REQUESTS, body)


async def answer(cluster):
    return (await cluster.client.get(POOL_STATUS_REQUESTS, "q")).get("status")


async def fill(cluster, *objects):
    for ref, obj in objects:
        await cluster.client.create(ref, obj)


@pytest.mark.parametrize(
    ("version", "counts"),
    [
        (V36, {"allocatedDevices": 3, "availableDevices": 2, "unavailableDevices": 0}),
        (V37, {"allocatedDevices": 1, "availableDevices": 2, "unavailableDevices": 2}),
    ],
)
async def test_devices_are_counted(make_cluster, version, counts):
    """Each once, not for administrators, tainted ones apart; 1.36 counts entries of allocations."""
    cluster = make_cluster(version, gates={"DRADeviceTaintRules": True})
    tainted = device("x3", taints=[{"key": "k", "effect": "NoSchedule"}])
    rule = {"deviceSelector": {"device": "x4"}, "taint": {"key": "k", "effect": "NoExecute"}}
    await fill(
        cluster,
        (REFS.slices, slice_("s", device("x1"), device("x2"), tainted, device("x4"), device("x5"))),
        (REFS.slices, slice_("old", device("y"), generation=0)),
        (REFS.slices, slice_("t", device("z"), pool="b", node="m")),
        (REFS.claims, claim("c", "x1")),
        (REFS.claims, claim("e", "x1")),
        (REFS.claims, claim("f", "x2", adminAccess=True)),
        (taint_rules_ref(version), {"metadata": {"name": "r"}, "spec": rule}),
    )
    await cluster.start(PoolStatusController)
    await ask(cluster)
    status = await cluster.until(lambda: answer(cluster))

    assert status["poolCount"] == 2
    assert status["pools"] == [
        {
            "driver": "d", "poolName": "a", "generation": 1, "nodeName": "n", "resourceSliceCount": 1,
            "totalDevices": 5, **counts,
        },
        {
            "driver": "d", "poolName": "b", "generation": 1, "nodeName": "m", "resourceSliceCount": 1,
            "totalDevices": 1, "allocatedDevices": 0, "availableDevices": 1, "unavailableDevices": 0,
        },
    ]  # fmt: skip
    condition = status["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("Complete", "CalculationComplete")
    assert condition["message"] == "Calculated status for 2 pools"
    text = generate_latest(cluster.context.registry).decode()
    assert 'resourcepoolstatusrequest_controller_requests_processed_total{driver_name="d"} 1.0' in text


async def test_one_pool_and_a_limit(make_cluster):
    """Pools beyond the limit are only counted."""
    cluster = make_cluster(V36)
    await fill(cluster, *((REFS.slices, slice_(name, device("x"), pool=name)) for name in "abc"))
    await cluster.start(PoolStatusController)
    await ask(cluster, limit=2)
    status = await cluster.until(lambda: answer(cluster))
    assert (status["poolCount"], [pool["poolName"] for pool in status["pools"]]) == (3, ["a", "b"])
    await cluster.client.delete(POOL_STATUS_REQUESTS, "q")
    await ask(cluster, poolName="c")
    status = await cluster.until(lambda: answer(cluster))
    assert [pool["poolName"] for pool in status["pools"]] == ["c"]


async def test_a_pool_that_is_being_published_is_waited_for(make_cluster):
    """The answer comes when all slices are there."""
    cluster = make_cluster(V36)
    await fill(cluster, (REFS.slices, slice_("s", device("x"), count=2)))
    await cluster.start(PoolStatusController)
    await ask(cluster)
    await cluster.quiet(0.01)
    assert await answer(cluster) is None
    await fill(cluster, (REFS.slices, slice_("t", device("y"), count=2)))
    status = await cluster.until(lambda: answer(cluster))
    assert status["pools"][0]["totalDevices"] == 2


async def test_partitions_and_shares(make_cluster):
    """1.37: how many partitions of each type would still fit, and the capacity of shared devices."""
    cluster = make_cluster(V37)

    def partition(name, kind, memory):
        cost = [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]
        return device(name, consumesCounters=cost, attributes={"kind": {"string": kind}})

    counters = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    partitions = [partition("h1", "half", "20Gi"), partition("h2", "half", "20Gi")]
    quarters = [partition(f"q{n}", "quarter", "10Gi") for n in range(4)]
    shared = device("s", allowMultipleAllocations=True, capacity={"bw": {"value": "10G"}})
    await fill(
        cluster,
        (REFS.slices, slice_("c", count=2, sharedCounters=counters)),
        (
            REFS.slices,
            slice_("s", *partitions, *quarters, shared, count=2, partitionTypeAttribute="d/kind"),
        ),
        (REFS.claims, claim("c", "h1")),
        (REFS.claims, claim("e", "s", consumedCapacity={"bw": "3G"})),
    )
    await cluster.start(PoolStatusController)
    await ask(cluster)
    pool = (await cluster.until(lambda: answer(cluster)))["pools"][0]

    assert pool["partitionSummary"] == [
        {"attribute": "d/kind", "type": "half", "total": 2, "allocatable": 1},
        {"attribute": "d/kind", "type": "quarter", "total": 4, "allocatable": 2},
    ]
    assert pool["shareableSummary"] == {
        "fullyAvailableDevices": 0,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "bw", "total": "10G", "consumed": "3G", "available": "7G"}],
    }


async def test_old_requests_go(make_cluster):
    """Answers after an hour."""
    cluster = make_cluster(V36)
    await cluster.start(PoolStatusController)
    await ask(cluster)
    assert (await cluster.until(lambda: answer(cluster)))["poolCount"] == 0
    await cluster.quiet(3000)
    assert await answer(cluster)
    await cluster.quiet(1300)
    with pytest.raises(StatusError):
        await answer(cluster)

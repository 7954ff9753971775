"""A cluster of one node with devices, for tests of DynamicResources over whole attempts."""

from scheduling_cluster import DRIVER, Cluster

from kubeskew.scheduler.settings import ProfileSettings, SchedulerSettings

CLAIM = [{"name": "x", "resourceClaimName": "c0"}]
RESULT = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
ELSEWHERE = {
    "devices": {"results": [RESULT]},
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
        ]
    },
}
PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


async def one_node(version="1.36", devices=1, *, settings=None, **gates):
    cluster = Cluster(version, settings=settings, **gates)
    await cluster.node(devices=devices)
    await cluster.device_class()
    return cluster


def arguments(**args):
    return SchedulerSettings((ProfileSettings(arguments={"DynamicResources": args}),))


async def bound(cluster, name="p0"):
    assert await cluster.node_of(name) == "n0"


async def only_claim(cluster):
    (claim,) = await cluster.claims()
    return claim


async def allocation(cluster):
    return (await only_claim(cluster))["status"].get("allocation")

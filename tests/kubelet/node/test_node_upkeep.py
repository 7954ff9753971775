"""The Node object and its lease over time: heartbeats, repairs, what others put there."""

import asyncio

import pytest

from kubeskew.apimachinery.client.refs import LEASES, NODES
from kubeskew.apimachinery.client.rest import MERGE_PATCH

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def ready(found):
    return next(c for c in found["status"]["conditions"] if c["type"] == "Ready")


async def change_status(node, change):
    await node.client.patch(NODES, "node-1", "", {"status": change}, MERGE_PATCH, subresource="status")


async def test_the_lease_is_renewed(node):
    """Every ten seconds, held by the node, owned by the Node object."""
    await node.start()
    await asyncio.sleep(1)
    first = await node.client.get(LEASES, "node-1", "kube-node-lease")
    await asyncio.sleep(10)
    second = await node.client.get(LEASES, "node-1", "kube-node-lease")

    assert first["spec"]["holderIdentity"] == "node-1"
    assert first["spec"]["leaseDurationSeconds"] == 40
    assert first["metadata"]["ownerReferences"][0]["uid"] == (await node.node())["metadata"]["uid"]
    assert second["spec"]["renewTime"] > first["spec"]["renewTime"]


async def test_an_unchanged_status_is_written_every_five_minutes(node, server):
    """In between the node is only looked at."""
    await node.start()
    before = (await node.node())["metadata"]["resourceVersion"]
    await asyncio.sleep(280)
    assert (await node.node())["metadata"]["resourceVersion"] == before
    await asyncio.sleep(30)
    found = await node.node()

    assert found["metadata"]["resourceVersion"] != before
    assert ready(found)["lastTransitionTime"] < ready(found)["lastHeartbeatTime"]


async def test_a_node_declared_unknown_says_that_it_is_ready(node):
    """A node that the node lifecycle controller marked Unknown is Ready again within seconds."""
    await node.start()
    unknown = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    await change_status(node, {"conditions": unknown})
    await asyncio.sleep(11)

    assert ready(await node.node())["status"] == "True"


async def test_resources_of_others_stay(node):
    """Capacity that an administrator or a plugin added is not the kubelet's to remove."""
    await node.start()
    await change_status(node, {"capacity": {"example.com/foo": "5"}})
    await node.stop()
    await node.start("1.35")

    status = (await node.node())["status"]
    assert status["capacity"]["example.com/foo"] == "5"
    assert status["capacity"]["cpu"] == "8"
    assert status["nodeInfo"]["kubeletVersion"] == "v1.35.9"


@pytest.mark.parametrize(
    ("versions", "reported"),
    [(["1.30"], None), (["1.32"], None), (["1.36"], True), (["1.36", "1.32"], True)],
)
async def test_a_node_reports_the_policy_of_supplemental_groups(node, versions, reported):
    """A kubelet with the gate reports that the runtime obeys the policy; one without leaves what is there."""
    for version in versions:
        await node.start(version)
        await node.stop()
    features = (await node.node())["status"].get("features") or {}
    assert features.get("supplementalGroupsPolicy") is reported


async def test_a_restart_does_not_make_the_node_unready(node, server):
    """Between the end of one kubelet and the first word of the next, Ready stays True."""
    await node.start()
    since = ready(await node.node())["lastTransitionTime"]
    await node.stop()
    await asyncio.sleep(20)
    await node.start()
    statuses = [
        ready(event[3])["status"]
        for event in server._events
        if event[1].endswith("/nodes") and event[3]["status"].get("conditions")
    ]

    assert statuses[0] == "False"
    assert set(statuses[1:]) == {"True"}
    assert ready(await node.node())["lastTransitionTime"] == since


async def test_an_absent_server_is_waited_for(node, server):
    """A kubelet that starts before its API server registers as soon as that is there."""
    server.outage = lambda request: ConnectionRefusedError("no server yet")
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(30)
    assert not starting.done()
    server.outage = None
    await asyncio.wait_for(starting, 3)
    assert node.agent.ready


async def test_pods_survive_an_absent_server(node, server):
    """While the API server is away, containers run, end and restart; it learns of it afterwards."""
    await node.start()
    await node.create(annotations={"kubelet.kubeskew.io/runs-for": "40"})
    await node.running()
    server.outage = lambda request: ConnectionRefusedError("gone")
    await server.disconnect()
    await asyncio.sleep(60)
    server.outage = None
    pod = await node.until_pod(lambda status: status["containerStatuses"][0]["restartCount"] == 1, seconds=5)

    assert "running" in pod["status"]["containerStatuses"][0]["state"]


async def test_a_new_node_shows_how_it_is(node):
    """Upstream's events of a first start; a restarted kubelet shows only that."""
    await node.start()
    await asyncio.sleep(1)
    first = [reason for reason, _ in await node.events()]
    await node.stop()
    await node.start()
    await asyncio.sleep(1)

    conditions = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    assert sorted(first) == sorted(["Starting", *conditions, "NodeAllocatableEnforced", "NodeReady"])
    again = [reason for reason, _ in await node.events()]
    assert sorted(again) == sorted([*first, "Starting", "NodeAllocatableEnforced"])


async def test_a_node_that_is_cordoned_says_so(node, server):
    """NodeNotSchedulable and NodeSchedulable come with the next look at the node."""
    await node.start()
    for unschedulable in (True, False):
        body = {"spec": {"unschedulable": unschedulable}}
        await node.client.patch(NODES, "node-1", "", body, MERGE_PATCH)
        await asyncio.sleep(11)

    changes = [message for reason, message in await node.events() if "Schedulable" in reason]
    assert changes == [
        f"Node node-1 status is now: {one}" for one in ("NodeNotSchedulable", "NodeSchedulable")
    ]
